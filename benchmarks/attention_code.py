"""Compiles attention kernels for sm_90a without a GPU, and counts what their machine code has.

    python benchmarks/attention_code.py [--json FILE]

The scheduled kernel as it stands, with two groups in turns, with the wait for PV in place, with programs that take one
tile after another, and with roles, at the problem's workloads.
Registers and spills are what nvcc says, which must be on the PATH; instructions are what Triton's cuobjdump reads.
Nothing runs, and nothing is timed.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tilelang
import triton
from command import run_benchmark
from kernelwright.core import PythonKernel
from kernelwright.corpus.kernels import ATTENTION_KERNEL
from tilelang import tvm
from tvm.target import Target

WORKLOADS: dict[str, tuple[Any, ...]] = {
    "default": (1, 32, 32, 512, 512, 64, 64, False, "float16"),
    "long": (1, 32, 32, 4096, 4096, 128, 128, False, "float16"),
    "causal": (4, 16, 16, 2048, 2048, 128, 128, True, "float16"),
}
"""By the problem's names: batch, heads, heads of keys, queries, keys, dimensions, causal, type."""
CONFIGS: dict[str, dict[str, Any]] = {
    "turns": {},
    "in place": {"WAIT_IN_PLACE": True},
    "workers": {"WAIT_IN_PLACE": True, "WORKERS": 132, "HEADS_ABREAST": 64},
    "bulk stores": {"WAIT_IN_PLACE": True, "WORKERS": 132, "BULK_STORE": True},
    "roles": {"TURNS": False},
}
COUNTED = (
    "HGMMA", "UTMALDG", "SYNCS", "USETMAXREG", "BAR.SYNC", "BAR.ARV", "WARPGROUP.DEPBAR", "MUFU.EX2", "LDL", "STL"
)  # fmt: skip
"""Products, loads by TMA, mbarriers, changes of registers, barriers, waits for products, exponentials, local memory."""


def lowered(config: Mapping[str, Any], sizes: tuple[Any, ...], folder: Path) -> tuple[str, int]:
    """Return the CUDA source, and the bytes of shared memory."""
    found: list[Any] = []

    def lower(function: Any, pass_configs: dict[str, Any] | None = None, **_: Any) -> None:
        target = Target({"kind": "cuda", "arch": "sm_90a"})
        with tvm.transform.PassContext(opt_level=3, config=pass_configs or {}), target:
            found.append(tilelang.lower(function, target=target))

    tilelang.compile = lower
    bound = folder / "kernel.py"
    bound.write_text(PythonKernel.parse(ATTENTION_KERNEL.read_text()).bind(config).source)
    module: dict[str, Any] = {}
    exec(compile(bound.read_text(), str(bound), "exec", dont_inherit=True), module)
    module["build_attention"](*sizes)
    (kernel,) = found[0].device_mod.functions.values()
    return found[0].kernel_source, int(kernel.attrs.get("dyn_shared_memory_buf", 0))


def counted(source: str, folder: Path) -> dict[str, Any]:
    """Return what nvcc says of a source, and the instructions in its machine code."""
    here = Path(tilelang.__file__).parent
    code, binary = folder / "kernel.cu", folder / "kernel.cubin"
    code.write_text(source)
    command = ["nvcc", "-gencode=arch=compute_90a,code=sm_90a", "-O3", "--use_fast_math", "-std=c++17", "-cubin"]
    command += [f"-I{here / 'src'}", f"-I{here / '3rdparty' / 'cutlass' / 'include'}", "-Xptxas", "-v"]
    run = subprocess.run([*command, "-o", binary, code], capture_output=True, text=True, check=True)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    assembly = subprocess.run([tool, "-sass", binary], capture_output=True, text=True, check=True).stdout
    said = {
        "registers": r"Used (\d+) registers",
        "barriers": r"used (\d+) barriers",
        "spilled_bytes": r"(\d+) bytes spill stores",
    }
    figures = {name: int(match[1]) for name, words in said.items() if (match := re.search(words, run.stderr))}
    figures["exponentials_under_pv"] = exponentials_under_pv(assembly)
    return figures | {name: len(re.findall(rf"\b{re.escape(name)}\b", assembly)) for name in COUNTED}


def exponentials_under_pv(assembly: str) -> int:
    """Return how many exponentials stand where a product with V is under way, of all groups: schedules mean all."""
    under = re.findall(r"DEPBAR\.LE gsb0, 0x1(.*?)DEPBAR\.LE gsb0, 0x0", assembly, re.DOTALL)
    return sum(item.count("MUFU.EX2") for item in under)


@functools.cache
def versions() -> dict[str, str]:
    said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    return {"tilelang": tilelang.__version__, "nvcc": re.findall(r"release ([\d.]+)", said)[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    record: dict[str, Any] = {"ran": False, "target": "sm_90a", **versions(), "kernels": {}}
    for name, config in CONFIGS.items():
        for workload, sizes in WORKLOADS.items():
            with tempfile.TemporaryDirectory() as folder:
                source, shared = lowered(config, sizes, Path(folder))
                found = {"shared_bytes": shared, **counted(source, Path(folder))}
            record["kernels"].setdefault(name, {})[workload] = found
            sys.stdout.write(f"{name}, {workload}: {found}\n")
            sys.stdout.flush()
            if options.json:
                options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
