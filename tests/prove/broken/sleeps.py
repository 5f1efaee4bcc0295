"""Never trains; ends when it is asked to."""

import time

time.sleep(60)
