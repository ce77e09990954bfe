"""Kernels of matrix products on which rules for Triton are tried, small enough for its interpreter."""

from __future__ import annotations

import functools
import json
import lzma
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelwright.agent.analysis.triton import TritonKernel
from kernelwright.agent.applied_rules import formatted
from kernelwright.agent.first_kernels.from_inductor import first_kernel
from kernelwright.agent.rules import RULES, Machine, Rewritten, Rule
from kernelwright.core import PythonKernel, TorchProblem
from kernelwright.core.generated_code import GeneratedCode
from kernelwright.corpus import find_kernel, find_problem

MACHINE = Machine(cores=1, multiprocessors=2)
BY_NAME = {rule.name: rule for rule in RULES}
RECORDED = Path(__file__).parent / "first_kernels" / "inductor_h200.jsonl.xz"
SMALL = {
    "2_10": {"batch_size": 1, "in_channels": 16, "out_channels": 16, "height": 6, "width": 6},
    "2_61": {
        "batch_size": 1,
        "in_channels": 16,
        "out_channels": 16,
        "D": 2,
        "H": 2,
        "W": 2,
        "groups": 2,
        "kernel_size": 2,
    },
}
"""Sizes below the workload tiny."""
SHRUNK = {"8388608": "2048", "8192": "64", "1024": "32"}
"""Numbers in the code of 2_12 from torch's compiler, which has its sizes as literals."""

VOLUME = {
    "5": "2",
    "7": "2",
    "35": "4",
    "105": "12",
    "315": "36",
    "128": "4",
    "124": "2",
    "122": "5",
    "15128": "10",
    "211792": "140",
    "13554688": "8960",
    "786432": "768",
    "262144": "256",
    "16384": "16",
}
"""The same of 1_66: images of 16 x 4 x 4 pixels, of which every second line and a border make 14 x 2 x 5."""


def is_for_triton(rule: Rule) -> bool:
    """Return whether a rule, or the one that it is combined from, reads Triton kernels."""
    return getattr(getattr(rule, "rule", rule), "read", None) == TritonKernel.read


@dataclass(frozen=True)
class Case:
    """A kernel and its problem."""

    kernel: PythonKernel
    problem: TorchProblem


@functools.cache
def shipped(name: str) -> Case:
    """Return a shipped kernel, with its problem at small sizes."""
    kernel = find_kernel(name, "triton").read()
    assert isinstance(kernel, PythonKernel)
    problem = TorchProblem.of(find_problem(name).read().at("tiny"))
    return Case(kernel, replace(problem, sizes={**problem.sizes, **SMALL.get(name, {})}))


@functools.cache
def from_inductor(name: str) -> PythonKernel:
    """Return the first kernel that torch's compiler wrote for a problem on an H200."""
    recorded = _recorded(name)
    problem = TorchProblem(id=recorded["id"], name=recorded["name"], source=recorded["reference"])
    return first_kernel(problem, GeneratedCode.model_validate(recorded["code"]))


@functools.cache
def linear_from_inductor() -> Case:
    """Return the first kernel of 2_12 with its sizes made small."""
    recorded = _recorded("2_12")
    source, reference = from_inductor("2_12").source, str(recorded["reference"])
    for old, new in SHRUNK.items():
        source, reference = source.replace(old, new), reference.replace(old, new)
    return Case(
        PythonKernel.parse(source), TorchProblem(id="level2/2_12", name="12_Gemm_Multiply_LeakyReLU", source=reference)
    )


def resized(name: str, sizes: Mapping[str, str]) -> Case:
    """Return the first kernel of a problem with other numbers for those that the recording has."""
    recorded = _recorded(name)

    def other(text: str) -> str:
        return re.sub(r"(?<![\w.])\d+(?![\w.])", lambda number: sizes.get(number[0], number[0]), text)

    problem = TorchProblem(id=str(recorded["id"]), name=str(recorded["name"]), source=other(str(recorded["reference"])))
    return Case(PythonKernel.parse(other(from_inductor(name).source)), problem)


@functools.cache
def applied(names: str, kernel: PythonKernel) -> Rewritten:
    """Apply rules one after the other; the last one's result, formatted."""
    before, _, name = names.rpartition("+")
    rewritten = BY_NAME[name].apply(applied(before, kernel).kernel if before else kernel, MACHINE)
    return replace(rewritten, kernel=formatted(rewritten.kernel))


@functools.cache
def triangle_from_inductor() -> Case:
    """Return a triangular product of 64 x 64 elements."""
    return resized("1_15", {"4096": "64", "16777216": "4096"})


@functools.cache
def volume_from_inductor() -> Case:
    """Return a convolution of three dimensions with steps and a border, of which the recording has none, made small."""
    case = resized("1_66", VOLUME)
    source, reference = case.kernel.source, case.problem.source
    for old, new in (
        ("STRIDE_H: tl.constexpr = 1", "STRIDE_H: tl.constexpr = 2"),
        ("PADDING_W: tl.constexpr = 0", "PADDING_W: tl.constexpr = 1"),
    ):
        assert old in source
        source = source.replace(old, new)
    old = "return [in_channels, out_channels, kernel_size]"
    assert old in reference
    steps = "return [in_channels, out_channels, kernel_size, (1, 2, 1), (0, 0, 1)]"
    return Case(PythonKernel.parse(source), replace(case.problem, source=reference.replace(old, steps)))


MADE = {"first kernel": linear_from_inductor, "volume": volume_from_inductor, "triangle": triangle_from_inductor}


def case_of(name: str) -> Case:
    """Return a first kernel by what it is, or a shipped one."""
    return MADE[name]() if name in MADE else shipped(name)


LAUNCHED = """
import torch
from pathlib import Path
from kernelwright.evaluators.workers.modules import ProblemModule
from triton.runtime.jit import JITFunction


launched = []
really_run = JITFunction.run
JITFunction.run = lambda self, *args, **options: launched.append(really_run(self, *args, **options)) or launched[-1]
problem = ProblemModule(Path({problem!r}), {sizes!r}, "cpu")
ModelNew(*problem.init_inputs())(*problem.inputs(0))
product = max(launched, key=lambda one: one.metadata.shared)
assert 0 < product.metadata.shared <= 227 * 1024
ptx = product.asm["ptx"]
{check}
"""


def compiled(folder: Path, cases: Sequence[tuple[Case, PythonKernel, str]]) -> list[str | None]:
    """Compile kernels for sm_90 and run a check on the `ptx` of each one's product; what failed, or None.

    In a process of its own: the interpreter's setting is read when Triton is imported.
    """
    paths = []
    for number, (case, kernel, check) in enumerate(cases):
        problem = folder / f"problem_{number}.py"
        problem.write_text(case.problem.source)
        end = LAUNCHED.format(problem=str(problem), sizes=dict(case.problem.sizes), check=check)
        paths.append(folder / f"kernel_{number}.py")
        paths[-1].write_text(f"# compiled\n{kernel.source}\n\n{end}")
    script = Path(__file__).parents[1] / "prompts" / "run_snippets.py"
    command = [sys.executable, str(script), "triton-cuda", str(folder / "errors.json"), *map(str, paths)]
    environment = os.environ | {"TRITON_CACHE_DIR": str(folder / "cache")}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return list(json.loads((folder / "errors.json").read_text()).values())


@functools.cache
def _recorded(name: str) -> dict[str, object]:
    lines = map(json.loads, lzma.decompress(RECORDED.read_bytes()).splitlines())
    return next(line for line in lines if line["id"].endswith(f"/{name}"))
