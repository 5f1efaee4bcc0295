"""Says why, and leaves with a status of its own."""

import os
import sys

print("the configuration lacks", os.environ["MISSING"], file=sys.stderr)
sys.exit(3)
