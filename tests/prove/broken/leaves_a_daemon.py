"""Ends at once; a process in a session of its own, twice forked, goes on."""

import os
import signal
import sys
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1], "w") as file:
            file.write(str(os.getpid()))
        signal.alarm(60)
        time.sleep(60)
    os._exit(0)
os.wait()
