"""What `optimize` gains on a CPU: idle, and with one core kept busy by another process.

    python benchmarks/busy.py [--kernel level1/1_94.py] [--target-speedup 1.3] [--runs 3] [--output FILE.json]

Each run starts in an empty folder with an empty cache. Printed are the gain over the start, the speedup over the
reference and whether it reached the target; a busy machine should gain what an idle one does. By default it is the run
of `make optimize`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from command import run_benchmark

BUSY = "while True: pass"


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep as many cores busy."""
    running = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def optimize(kernel: str, target: float) -> dict[str, Any]:
    """Return what one run says of itself."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "kernelwright", "optimize", "--kernel", kernel, "--model", "rules", "--json"]
        command += ["--target-speedup", str(target)]
        environment = os.environ | {"KERNELWRIGHT_CACHE": str(Path(folder, "cache"))}
        start = time.perf_counter()
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - start
    if not ran.stdout.strip():
        raise SystemExit(ran.stderr.strip())
    found = json.loads(ran.stdout)
    start_ms, best_ms = (found[which]["latency_ms"] for which in ("start", "best"))
    return {
        "device": found["device"],
        "start_ms": round(start_ms, 3),
        "best_ms": round(best_ms, 3),
        "gain": round(start_ms / best_ms, 2),
        "speedup": round(found["best"]["speedup"], 3),
        "reached": found["target_reached"],
        "seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="level1/1_94.py")
    parser.add_argument("--target-speedup", type=float, default=1.3)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows = []
    for busy in (0, 1):
        for _ in range(options.runs):
            with load(busy):
                rows.append({"busy_cores": busy, **optimize(options.kernel, options.target_speedup)})
            print(json.dumps(rows[-1]), flush=True)
    if options.output:
        found = {"kernel": options.kernel, "target_speedup": options.target_speedup, "runs": rows}
        options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
