"""What the two benchmarks share: the host in words, building, running a program and what it used.

Python's standard library only. Used by measure/run and cost/run, which add this folder to their path.
"""

import datetime
import json
import os
import pathlib
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELEASE = ROOT / "target" / "release"
BURN = RELEASE / "metier-burn"
METIER = RELEASE / "metier"
# Limit for any one measured command: a hang must not look like a slow benchmark.
LONGEST = 180


def say(text):
    print(text, file=sys.stderr, flush=True)


def fail(text):
    say(f"bench: {text}")
    sys.exit(1)


def build():
    """Builds the release binaries that are measured."""
    say("building release binaries")
    done = subprocess.run(["cargo", "build", "--release", "-p", "metier", "-p", "metier-burn"], cwd=ROOT)
    if done.returncode != 0:
        fail("cargo build --release failed; fix the build first")
    for program in (METIER, BURN):
        if not program.exists():
            fail(f"{program} was not built")


def read(path, default=""):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return default


def first_line(command):
    """The first line that a program prints, on either stream."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0] if lines else None


def describe_host():
    """The host as a reader needs it to judge the figures."""
    cpu = next((line.split(":", 1)[1].strip() for line in read("/proc/cpuinfo").splitlines()
                if line.startswith("model name")), platform.machine())
    memory = next((int(line.split()[1]) // 1024 for line in read("/proc/meminfo").splitlines()
                   if line.startswith("MemTotal")), None)
    kinds = {line.split(" - ", 1)[1].split()[0] for line in read("/proc/self/mountinfo").splitlines()
             if " - cgroup" in line}
    layout = {frozenset({"cgroup2"}): "version 2", frozenset({"cgroup"}): "version 1"}.get(frozenset(kinds), "hybrid")
    virtual = " (virtual machine)" if " hypervisor" in read("/proc/cpuinfo") else ""
    commit = first_line(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"])
    return {
        "cpu": f"{cpu}, {os.cpu_count()} cores{virtual}",
        "memory_mib": memory,
        "kernel": platform.release(),
        "system": next((line.split("=", 1)[1].strip('"') for line in read("/etc/os-release").splitlines()
                        if line.startswith("PRETTY_NAME")), platform.system()),
        "control_groups": layout,
        "user": "root" if os.geteuid() == 0 else "ordinary user",
        "load_before": round(os.getloadavg()[0], 2),
        "commit": commit,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


def steal():
    """(stolen, total) CPU ticks since boot."""
    ticks = [int(x) for x in read("/proc/stat").splitlines()[0].split()[1:9]]
    return ticks[7], sum(ticks)


def forks():
    """Processes and threads that the host has started since boot."""
    return next(int(line.split()[1]) for line in read("/proc/stat").splitlines() if line.startswith("processes"))


def host_lines(host):
    return "\n".join(f"- {key.replace('_', ' ')}: {value}" for key, value in host.items() if value is not None)


def run(command, environment=None, check=True):
    """Runs to the end; returns (wall seconds, output)."""
    before = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    try:
        output, _ = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        fail(f"{command[0]} took longer than {LONGEST} s: {command}")
    wall = time.monotonic() - before
    if check and process.returncode != 0:
        text = output.decode(errors="replace")[-2000:]
        fail(f"exit code {process.returncode} of {' '.join(map(str, command))}\n{text}")
    return wall, output.decode(errors="replace")


def wait_for_json(path, seconds=30):
    """A report that an orphan may still be writing; it appears complete or not at all."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.path.exists(path):
            return json.loads(read(path))
        time.sleep(0.02)
    fail(f"{path} was not written within {seconds} s")


def copy_store(source, target):
    """Copies a store whole, also what is still in its journal."""
    with sqlite3.connect(f"file:{source}?mode=ro", uri=True) as before, sqlite3.connect(target) as after:
        before.backup(after)


def worst(values):
    """The value farthest from 0."""
    return max(values, key=abs) if values else None


def median(values):
    return statistics.median(values) if values else None


def table(head, rows):
    """A markdown table."""
    line = lambda cells: "| " + " | ".join(str(cell) for cell in cells) + " |"
    return "\n".join([line(head), "|" + "---|" * len(head)] + [line(row) for row in rows])


def tools():
    """The folder with the peers, from the lab."""
    folder = os.environ.get("METIER_LAB_TOOLS")
    if folder is None:
        lab = ROOT / "lab" / "lab"
        subprocess.run([str(lab), "up", "tools"], check=False, stdout=sys.stderr)
        done = subprocess.run([str(lab), "env", "tools"], capture_output=True, text=True)
        for line in done.stdout.splitlines():
            if line.startswith("export METIER_LAB_TOOLS="):
                folder = line.split("=", 1)[1].strip("'\"")
    return pathlib.Path(folder) if folder else None


def find_tool(folder, name):
    """A peer's path, or None with a loud word."""
    path = folder / name if folder and (folder / name).exists() else shutil.which(name)
    if path is None:
        say(f"SKIP: {name}, because it is not installed; `lab/lab up tools` gets it")
    return str(path) if path else None
