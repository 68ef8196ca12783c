"""Stands for an application: looks at every byte of its input, and times itself the way pywaggle does."""
import sys
import time

started = time.monotonic()
with open(sys.argv[-1], "rb") as data:
    total = sum(data.read())
print(f"sum {total} in {time.monotonic() - started:.3f} s")
