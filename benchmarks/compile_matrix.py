"""Compiles the corpus's Triton kernels for architectures that are not here, and records what their code takes.

    python benchmarks/compile_matrix.py [--arch gfx942 ...] [--kernels gemm ...] [--json FILE] [--docs]

Registers, shared memory (LDS), spills and matrix instructions are what Triton, ptxas and LLVM state. A kernel that
takes more shared memory than a block may have is compiled again with fewer stages. Nothing runs or is timed.
`--docs` only writes the tables of docs/devices.md, from `core.devices` and from the record in results/samples/cpu/.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from command import run_benchmark
from kernelwright.core import Kernel, TorchProblem
from kernelwright.core.devices import architecture, architectures
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.corpus.examples import ExampleFolder
from kernelwright.evaluators.compilation.cross import CrossCompiled, compile_for
from kernelwright.evaluators.profiling.occupancy import occupancy

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "results" / "samples" / "cpu" / "compile_matrix.json"
PAGE = ROOT / "docs" / "devices.md"
COMPILED = ("sm_80", "sm_90", "sm_100", "sm_120", "gfx942", "gfx950", "gfx1201")
STAGES = "NUM_STAGES"
TILE = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64, "NUM_WARPS": 8}
OPERATORS: Mapping[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "gemm": ("gemm/gemm", {}, {}),
    "gemm bf16": ("gemm/gemm", {"DTYPE": "bfloat16"}, {}),
    "gemm fp8": ("gemm/gemm", {"DTYPE": "float8_e4m3fn"}, {}),
    "gemm split K": ("gemm/gemm", {}, {"SPLIT_K": 4}),
    "gemm persistent": ("gemm/gemm", {}, {"VARIANT": "persistent"}),
    "gemm tma": ("gemm/gemm", {}, {"VARIANT": "tma"}),
    "gemm tma_tile": ("gemm/gemm", {}, {"VARIANT": "tma_tile"}),
    "gemm tma_tile fp8": ("gemm/gemm", {"DTYPE": "float8_e4m3fn"}, {"VARIANT": "tma_tile"}),
    "a8w8_blockscale": ("gemm/a8w8_blockscale", {}, {}),
    "a8w8_blockscale persistent": ("gemm/a8w8_blockscale", {}, {"VARIANT": "persistent"}),
    "a8w8_blockscale tma_tile": ("gemm/a8w8_blockscale", {}, {"VARIANT": "tma_tile"}),
    "moe": ("gemm/moe", {}, {}),
    "moe fp8": ("gemm/moe", {"DTYPE": "float8_e4m3fn"}, {"BLOCK_SIZE_K": 128}),
    "decoding": ("attention/decoding", {}, {}),
}
"""By name: the operator, changes of its sizes, changes of its constants."""


def kernels() -> dict[str, tuple[TorchProblem, Kernel]]:
    """Return all kernels of the matrix: the operators of engines, then what the worked examples arrive at."""
    found: dict[str, tuple[TorchProblem, Kernel]] = {}
    for name, (operator, sizes, config) in OPERATORS.items():
        problem, kernel = find_problem(operator).read(), find_kernel(operator, "triton").read()
        layout = {"LAYOUT": "TN"} if operator == "gemm/gemm" else {}
        constants = {**(TILE if operator == "gemm/gemm" else {}), **config}
        if sizes.get("DTYPE") and "DTYPE" in kernel.config:
            constants["DTYPE"] = sizes["DTYPE"]
        found[name] = problem.resized(name, {**problem.sizes, **layout, **sizes}), kernel.bind(constants)
    for folder in sorted((ROOT / "corpus" / "examples" / "triton").iterdir()):
        example = ExampleFolder(folder)
        found[folder.name] = example.read_problem(), example.read_kernel("after")
    return found


def compiled(name: str, cases: Mapping[str, tuple[TorchProblem, Kernel]]) -> dict[str, dict[str, Any]]:
    """Return the row of each kernel on one architecture, with as many stages as fit."""
    limit, found = architecture(name).block_shared_bytes, {}
    left = dict(cases)
    while left:
        rows = zip(left, compile_for(name, list(left.values())), strict=True)
        results = {case: (result, left[case][1].config.get(STAGES)) for case, result in rows}
        found |= {case: row(name, result, stages) for case, (result, stages) in results.items()}
        left = {
            case: (left[case][0], left[case][1].bind({STAGES: int(stages) - 1}))
            for case, (_, stages) in results.items()
            if found[case].get("shared_bytes", 0) > limit and stages is not None and int(stages) > 1
        }
    return {case: found[case] for case in cases}


def row(name: str, result: CrossCompiled, stages: Any) -> dict[str, Any]:
    """Return the figures of a kernel's product, or of its largest launch."""
    kernel = result.product()
    if kernel is None:
        return {"error": result.error.strip().splitlines()[-1][:300] if result.error else "no launch was seen"}
    extra: dict[str, Any] = {} if stages is None else {"stages": stages}
    shared, threads = kernel.shared_bytes or 0, kernel.threads or 0
    resident = occupancy(name, threads, kernel.registers, shared)
    return {
        "kernel": kernel.name, "registers": kernel.registers, "spilled_bytes": kernel.spills, "shared_bytes": shared,
        "threads": threads, "occupancy": resident.share if resident else None,
        "matrix": list(kernel.tensor_cores or ()), "launches": len(result.kernels), **extra,
    }  # fmt: skip


def architecture_table() -> list[str]:
    """Return the table of what `core.devices` describes."""
    head = "architecture|generation|shared KiB: multiprocessor, block|registers: multiprocessor, thread"
    lines = _head(f"{head}|threads, warp|matrix instructions|fp8|in files|GPUs")
    for item in architectures().values():
        cells = [
            item.name, item.generation, f"{item.shared_bytes >> 10}, {item.block_shared_bytes >> 10}",
            f"{item.registers}, {item.thread_registers}", f"{item.threads}, {item.warp_size}", ", ".join(item.matrix),
            ", ".join(name.removeprefix("float8_") for name in item.float8) or "none", item.suffix,
            ", ".join(item.cards) or "none",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def matrix_table(record: Mapping[str, Any]) -> list[str]:
    """Return the table of a record: registers, KiB of shared memory, matrix instructions, and spills if there are."""
    found = record["architectures"]
    lines = _head("|".join(["kernel", *found]))
    for case in next(iter(found.values())):
        lines.append(f"| {' | '.join([case, *(_cell(rows[case]) for rows in found.values())])} |")
    return lines


def _cell(figures: Mapping[str, Any]) -> str:
    if "error" in figures:
        return "does not compile"
    spilled = f", {figures['spilled_bytes']} B spilled" if figures["spilled_bytes"] else ""
    matrix = f", {'/'.join(figures['matrix'])}" if figures["matrix"] else ""
    return f"{figures['registers']}, {figures['shared_bytes'] / 1024:.0f} KiB{matrix}{spilled}"


def _head(names: str) -> list[str]:
    columns = names.split("|")
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def with_tables(page: str, tables: Mapping[str, Iterable[str]]) -> str:
    """Return a page with the lines between the marks of each table replaced."""
    for name, lines in tables.items():
        before, mark, rest = page.partition(f"<!-- {name}: written by benchmarks/compile_matrix.py --docs -->\n\n")
        assert mark, f"{PAGE} has no table {name}"
        page = "".join([before, mark, "\n".join(lines), "\n\n<!-- end -->", rest.partition("<!-- end -->")[2]])
    return page


def tables() -> dict[str, list[str]]:
    """Return the tables of docs/devices.md by the names of their marks."""
    return {"architectures": architecture_table(), "matrix": matrix_table(json.loads(RECORD.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", action="append", choices=COMPILED)
    parser.add_argument("--kernels", action="append", metavar="NAME")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", action="store_true")
    options = parser.parse_args()
    if options.docs:
        PAGE.write_text(with_tables(PAGE.read_text(), tables()))
        return
    every = kernels()
    cases = {name: every[name] for name in options.kernels or every}
    record: dict[str, Any] = {"ran": False, "triton": version("triton"), "torch": version("torch"), "architectures": {}}
    for name in options.arch or COMPILED:
        rows = record["architectures"][name] = compiled(name, cases)
        for case, figures in rows.items():
            sys.stdout.write(f"{name}, {case}: {figures}\n")
        sys.stdout.flush()
        if options.json:
            options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
