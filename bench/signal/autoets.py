"""AutoETS of statsforecast on each window of a file, one core; run by `forecast` in a venv of its own.

`autoets.py FILE`: prints one JSON array a line, like the example `forecast`. The peak's point and quantiles are the largest of the steps'.
"""

import json
import sys
import time

import numpy
from statsforecast.models import AutoETS

for line in open(sys.argv[1]):
    window = json.loads(line)
    history = numpy.array(window["history"])
    start = time.perf_counter()
    result = AutoETS(season_length=window["period"]).forecast(y=history, h=window["horizon"], level=[80, 90, 95])
    microseconds = (time.perf_counter() - start) * 1e6
    columns = [result[name] for name in ("mean", "lo-95", "lo-80", "mean", "hi-80", "hi-90", "hi-95")]
    steps = numpy.array(columns).T
    print(json.dumps([microseconds, steps.tolist(), steps.mean(axis=0).tolist(), steps.max(axis=0).tolist()]))
