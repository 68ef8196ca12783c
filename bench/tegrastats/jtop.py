"""A published peer: the parser of jetson_stats 3.1.4 (jtop), as `lab/lab up tools` fetches it from PyPI.

Its functions are called one by one, so that one which fails on a line loses only its own values, and what they give is put into the names
and units of `metier board -o csv`. It drops `_FREQ` from names; that is no fault, so it is dropped from the truth for it, too.
"""

import importlib.util
import os
import pathlib

UNITS = {"k": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def find():
    """The parser, or None where the lab has not fetched it."""
    tools = os.environ.get("METIER_LAB_TOOLS")
    path = pathlib.Path(tools).parent / "jtop" / "tegra_parse.py" if tools else None
    if not path or not path.exists():
        return None
    spec = importlib.util.spec_from_file_location("tegra_parse", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(field):
    return field.replace("_FREQ", "")


def parse(module, line):
    found = {}

    def ask(name):
        try:
            return getattr(module, name)(line)
        except (ValueError, AttributeError):
            return {}

    for name, kind in (("RAM", "ram"), ("SWAP", "swap"), ("IRAM", "iram")):
        if got := ask(name):
            unit = UNITS[got["unit"]]
            found[f"{kind}.used_bytes"], found[f"{kind}.total_bytes"] = got["use"] * unit, got["tot"] * unit
            if "cached" in got:
                found[f"{kind}.cached_bytes"] = got["cached"]["size"] * UNITS[got["cached"]["unit"]]
            if "lfb" in got:
                found[f"{kind}.largest_free.size_bytes"] = got["lfb"]["size"] * UNITS[got["lfb"]["unit"]]
            if "nblock" in got.get("lfb", {}):
                found[f"{kind}.largest_free.count"] = got["lfb"]["nblock"]
    for name, got in ask("CPUS").items():
        core = f"cores.{int(name[3:]) - 1}"
        if not got:
            found[f"{core}.off"] = "true"
        if "val" in got:
            found[f"{core}.load_ratio"] = got["val"] / 100
        if "frq" in got:
            found[f"{core}.frequency_hertz"] = got["frq"] * 1000
    for name, got in ask("VALS").items():
        kind = "emc" if name == "EMC" else "gpus" if name.startswith("GR3D") else "engines"
        # A number alone is a load of these two and a clock of the others.
        if "frq" in got or kind != "engines":
            found[f"{kind}.{name}.load_ratio"] = got["val"] / 100
        hertz = got["frq"] * 1000 if "frq" in got else got["val"] * 10**6 if kind == "engines" else None
        if hertz is not None:
            found[f"{kind}.{name}.frequencies_hertz.0"] = hertz
    if got := ask("MTS"):
        found["mts.foreground_ratio"], found["mts.background_ratio"] = got["fg"] / 100, got["bg"] / 100
    for name, celsius in ask("TEMPS").items():
        found[f"{'placeholders' if name == 'PMIC' else 'temperatures'}.{name}.celsius"] = celsius
    for name, got in ask("WATTS").items():
        found[f"rails.{name}.watts"], found[f"rails.{name}.mean_watts"] = got["cur"] / 1000, got["avg"] / 1000
    return found
