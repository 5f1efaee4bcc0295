"""Takes more and more memory, and touches it; some more than any test allows, then no more."""

import time

kept = []
for _ in range(100):
    kept.append(bytearray(b"x") * (8 << 20))
    time.sleep(0.05)
time.sleep(60)
