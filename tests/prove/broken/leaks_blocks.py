"""Makes blocks that nobody will remove: whoever would is killed with it."""

import os
import signal
import time
from multiprocessing import resource_tracker, shared_memory

blocks = [shared_memory.SharedMemory(create=True, size=4096) for _ in range(3)]
descriptor = os.open("/dev/shm/torch_%d_1_0" % os.getpid(), os.O_CREAT | os.O_RDWR, 0o600)
os.close(descriptor)
time.sleep(2)  # long enough to be seen with them
os.kill(resource_tracker._resource_tracker._pid, signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
