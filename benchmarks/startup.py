"""How long the package and its help take to start, beside what they cannot do without.

    python benchmarks/startup.py --json startup.json

Each program runs in fresh processes, interleaved with the others; medians in seconds.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from kernelwright.api.devices import device_label

PROGRAMS = {
    "python -c pass": ["-c", "pass"],
    "import kernelwright": ["-c", "import kernelwright"],
    "import typer": ["-c", "import typer"],
    "kernelwright --help": ["-m", "kernelwright", "--help"],
    "kernelwright optimize --help": ["-m", "kernelwright", "optimize", "--help"],
}


def seconds(arguments: list[str]) -> float:
    """Wall time of one process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    samples: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(options.rounds + 1):
        for name, arguments in PROGRAMS.items():
            samples[name].append(seconds(arguments))
    # The first round fills caches of files and of compiled Python.
    medians = {name: round(statistics.median(taken[1:]), 4) for name, taken in samples.items()}
    for name, median in medians.items():
        print(f"{median:7.3f} s  {name}")
    if options.json:
        versions = {"python": platform.python_version(), **{name: version(name) for name in ("typer", "rich")}}
        record = {"processor": device_label("cpu"), **versions, "medians_s": medians}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
