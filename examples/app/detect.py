"""Stands for an application: looks at its input piece by piece, and says how long each stage of a piece took.

It writes plain lines to the file METIER_LINES (docs/reference/application-messages.md). Without that
variable they go to /dev/null.
"""
import os
import sys
import time

metier = open(os.environ.get("METIER_LINES", os.devnull), "w", buffering=1)


def timed(stage, work, *arguments):
    started = time.perf_counter()
    result = work(*arguments)
    print(stage, time.perf_counter() - started, "s", file=metier)
    return result


def load(data):
    return data.read(1 << 16)


def detect(piece):
    return sum(byte & 1 for byte in piece)


found = 0
with open(sys.argv[-1], "rb") as data:
    while piece := timed("load", load, data):
        found += timed("detect", detect, piece)
        print("pieces 1 count", file=metier)
print(f"{found} found")
