"""``python -m bottleneck_doctor`` is ``bdoc``."""

from __future__ import annotations

import sys

from .commands.app import main

if __name__ == "__main__":
    sys.exit(main())
