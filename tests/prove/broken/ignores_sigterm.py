"""Never trains, and does not listen when it is asked to end."""

import signal
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.alarm(60)
time.sleep(60)
