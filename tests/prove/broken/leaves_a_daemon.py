"""Ends at once; a process in a session of its own, twice forked, goes on."""

import os
import signal
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.alarm(60)
        time.sleep(60)
    os._exit(0)
os.wait()
