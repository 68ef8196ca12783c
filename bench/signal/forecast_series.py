"""The real series of the forecast benchmark and their windows; standard library only."""

import collections
import csv
import datetime
import gzip
import hashlib
import statistics

ORIGINS = 5
# Pods that ran for the whole trace and were not idle.
MIN_POD_SAMPLES = 1400
MIN_POD_DEVIATION = 1.0
MIN_CLOUD_HOURS = 300
FAMILIES = ["pod GPU duty cycle", "cluster partition", "cloud metric"]


def bin_means(samples, seconds):
    """Means of (time, value) in bins of that length; an empty bin repeats the one before."""
    bins = collections.defaultdict(list)
    start = samples[0][0]
    for time, value in samples:
        bins[int((time - start) // seconds)].append(value)
    means = []
    for at in range(max(bins) + 1):
        means.append(statistics.fmean(bins[at]) if at in bins else means[-1])
    return means


def pod_series(folder):
    pods = collections.defaultdict(list)
    with gzip.open(folder / "alibaba-genai-2026" / "pod_gpu_duty_cycle.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            pods[row["container_ip"]].append((float(row["timestamp_anon"]), float(row["value"])))
    for name, samples in sorted(pods.items()):
        if len(samples) >= MIN_POD_SAMPLES and statistics.pstdev(value for _, value in samples) >= MIN_POD_DEVIATION:
            yield name, bin_means(samples, 300)


def seconds(text):
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc).timestamp()


def partition_series(folder):
    for path in sorted((folder / "helios-earth-2020").glob("*.csv.gz")):
        with gzip.open(path, "rt") as file:
            yield path.name.split(".")[0], bin_means([(seconds(row["time"]), float(row["running_gpu_num"])) for row in csv.DictReader(file)], 3600)


def cloud_series(folder):
    for path in sorted((folder / "nab-aws").glob("*.csv")):
        with open(path) as file:
            means = bin_means([(seconds(row["timestamp"]), float(row["value"])) for row in csv.DictReader(file)], 3600)
        if len(means) >= MIN_CLOUD_HOURS:
            yield path.stem, means


def is_for_choice(name):
    """Which half a series is in: parameters are chosen on one, figures come from the other."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 0


def load_windows(folder):
    """One entry for each series and origin: the history, and the window to come."""
    windows = []
    for family, source, horizon in zip(FAMILIES, (pod_series, partition_series, cloud_series), (12, 24, 24)):
        for name, values in source(folder):
            first, last = len(values) // 2, len(values) - horizon
            for number in range(ORIGINS):
                origin = first + (last - first) * number // (ORIGINS - 1)
                windows.append({"series": name, "family": family, "origin": origin, "horizon": horizon, "period": horizon, "for_choice": is_for_choice(name),
                                "history": values[:origin], "actual": values[origin:origin + horizon]})
    return windows
