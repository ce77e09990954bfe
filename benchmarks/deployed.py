"""What calls of deployed operators take, of the host and of the device.

    python benchmarks/deployed.py [--kernel 1_36 --kernel 2_12] [--device cuda] [--output FILE.json]
    python benchmarks/deployed.py --kernel 2_12 --serve batch_size=512..2048 --at 64 --at 512 --at 1024 --at 4096

Each shipped kernel is evaluated, deployed with that evidence, and timed in a process without kernelwright: one call
from Python, the Python thread's share of it, one call in a CUDA graph and one under torch.compile, beside the reference
in eager torch and an empty operator of the same signature. `beyond_empty_us` is what the operator takes of the Python
thread beyond the empty one. With --at the size of --serve has these values, inside of the range and outside.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import kernelwright
from command import run_benchmark
from kernelwright.core.evidence import with_evidence
from kernelwright.corpus import find_problem

KERNELS = ("1_23", "1_36", "1_40", "1_47", "2_12")
TIMEOUT_S = 500
_TIMED = """
import dataclasses, importlib, json, sys
sys.modules["kernelwright"] = None
sys.path.insert(0, sys.argv[1])
package = importlib.import_module(sys.argv[2])
checks = package.verify()
print(*checks, sep="\\n", file=sys.stderr)
if not all(check.passed for check in checks):
    sys.exit(f"{sys.argv[2]} is not timed: it is not verified")
times = package.benchmark(at=json.loads(sys.argv[3]))
print(json.dumps([[dataclasses.asdict(item) for item in times], package.fallbacks()]))
"""


def deployed(reference: str, device: str, workload: str | None, serve: str | None, folder: Path) -> tuple[Path, str]:
    """Evaluate a kernel and deploy it; return the package's folder and name."""
    verdict = kernelwright.evaluate(reference, device=device, workload=workload)
    evaluation, kernel = verdict.evaluation, verdict.kernel
    if evaluation is None or kernel is None or not evaluation.ok:
        raise SystemExit(f"{reference}: {verdict.status}: {verdict.message}")
    problem = find_problem(verdict.problem).read()
    # Sizes that are given as such have no name.
    problem = problem.at(verdict.workload if verdict.workload in problem.workloads else str(workload))
    path = folder / "result.py"
    path.write_text(with_evidence(kernel.source, problem, evaluation, evaluation))
    short = f"k{reference.replace('/', '_')}"
    found = kernelwright.deploy_operator(
        [path], name=f"benchmark::{short}", output=folder / "package", serve=serve, problem=problem.id
    )
    return found.folder, found.package


def timed(folder: Path, package: str, at: list[dict[str, int]]) -> dict[str, Any]:
    """Return the times of a package in a process of its own."""
    command = [sys.executable, "-P", "-c", _TIMED, str(folder), package, json.dumps(at)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True)
    times, fallbacks = json.loads(run.stdout.splitlines()[-1])
    by_size: dict[str, dict[str, Any]] = {}
    for item in times:
        by_size.setdefault(item["sizes"], {})[item["what"]] = item
    rows = [
        {
            "sizes": sizes,
            **{
                f"{what}_{name}": round(item[name], 2)
                for what, item in found.items()
                for name in ("call_us", "host_us", "graph_us", "compiled_us")
                if item[name] is not None
            },
            "beyond_empty_us": round(found["operator"]["host_us"] - found["empty"]["host_us"], 2),
        }
        for sizes, found in by_size.items()
    ]
    return {"rows": rows, "fallbacks": fallbacks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", action="append")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workload")
    parser.add_argument("--serve")
    parser.add_argument("--at", action="append", type=int, default=[])
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    size = (options.serve or "").partition("=")[0]
    if options.at and not size:
        parser.error("--at gives values of the size of --serve")
    found = []
    for reference in options.kernel or KERNELS:
        with tempfile.TemporaryDirectory() as folder:
            made = deployed(reference, options.device, options.workload, options.serve, Path(folder))
            found.append({"kernel": reference, **timed(*made, [{size: value} for value in options.at])})
        print(json.dumps(found[-1]), flush=True)
    if options.output:
        import torch

        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        record = {"device": gpu, "torch": torch.__version__, "kernels": found}
        options.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
