"""The peer: lines of tegrastats by regular expressions, one for each field that the vendor's manual names.

This is how most published parsers work. Written for the benchmark, with care: values are found anywhere in the line, both
forms of power are known, cores may be off, loads may have no clock.
"""

import re

MIB = 1 << 20
UNITS = {"kB": 1 << 10, "MB": 1 << 20}
RAM = re.compile(r"RAM (\d+)/(\d+)MB \(lfb (\d+)x(\d+)(MB|kB)\)")
SWAP = re.compile(r"SWAP (\d+)/(\d+)MB \(cached (\d+)MB\)")
IRAM = re.compile(r"IRAM (\d+)/(\d+)kB ?\(lfb (\d+)kB\)")
CPU = re.compile(r"CPU \[(.*?)\]")
CORE = re.compile(r"(\d+)%@(\d+)")
EMC = re.compile(r"(EMC_FREQ) (\d+)%(?:@(\d+))?")
GPU = re.compile(r"(GR3D_FREQ) (\d+)%(?:@\[?(\d+(?:,\d+)*)\]?)?")
ENGINE = re.compile(r"\b(NVENC\d?|NVDEC\d?|NVJPG\d?|VIC(?:_FREQ)?|OFA|NVDLA\d|PVA\d_FREQ|MSENC|APE) +(off|(\d+)%@(\d+)|(\d+))\b")
MTS = re.compile(r"MTS fg (\d+)% bg (\d+)%")
TEMPERATURE = re.compile(r"(\w+)@(-?\d+(?:\.\d+)?)C")
RAIL = re.compile(r"\b(\w+) (\d+)(?:mW)?/(\d+)(?:mW)?(?= |$)")


def parse(line):
    """Field to value, in the names and units of `metier board -o csv`."""
    found = {}
    if match := RAM.search(line):
        used, total, count, size, unit = match.groups()
        found["ram.used_bytes"], found["ram.total_bytes"] = int(used) * MIB, int(total) * MIB
        found["ram.largest_free.count"], found["ram.largest_free.size_bytes"] = int(count), int(size) * UNITS[unit]
    if match := SWAP.search(line):
        for name, value in zip(("used", "total", "cached"), match.groups()):
            found[f"swap.{name}_bytes"] = int(value) * MIB
    if match := IRAM.search(line):
        used, total, block = (int(value) * 1024 for value in match.groups())
        found["iram.used_bytes"], found["iram.total_bytes"] = used, total
        found["iram.largest_free.size_bytes"] = block
    if match := CPU.search(line):
        for number, core in enumerate(match.group(1).split(",")):
            if core == "off":
                found[f"cores.{number}.off"] = "true"
            elif one := CORE.fullmatch(core):
                found[f"cores.{number}.load_ratio"] = int(one.group(1)) / 100
                found[f"cores.{number}.frequency_hertz"] = int(one.group(2)) * 10**6
    for kind, pattern in (("emc", EMC), ("gpus", GPU)):
        if match := pattern.search(line):
            name, load, clocks = match.groups()
            found[f"{kind}.{name}.load_ratio"] = int(load) / 100
            for number, clock in enumerate(clocks.split(",") if clocks else ()):
                found[f"{kind}.{name}.frequencies_hertz.{number}"] = int(clock) * 10**6
    for name, state, load, clock, bare in ENGINE.findall(line):
        if state == "off":
            found[f"engines.{name}.off"] = "true"
        if load:
            found[f"engines.{name}.load_ratio"] = int(load) / 100
        if clock or bare:
            found[f"engines.{name}.frequencies_hertz.0"] = int(clock or bare) * 10**6
    if match := MTS.search(line):
        found["mts.foreground_ratio"], found["mts.background_ratio"] = (int(v) / 100 for v in match.groups())
    for name, celsius in TEMPERATURE.findall(line):
        kind = "placeholders" if name == "PMIC" else "temperatures"
        found[f"{kind}.{name}.celsius"] = float(celsius)
    for name, now, mean in RAIL.findall(line):
        if name not in ("RAM", "SWAP", "IRAM"):
            found[f"rails.{name}.watts"], found[f"rails.{name}.mean_watts"] = int(now) / 1000, int(mean) / 1000
    return found
