"""Stand-ins for torch's compiler and a model, which first kernels come from."""

from __future__ import annotations

import contextlib
import json
import lzma
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelwright.core import (
    Config,
    Evaluation,
    Kernel,
    Problem,
    Profile,
    Status,
    TorchProblem,
)
from kernelwright.core.events import ignore
from kernelwright.core.generated_code import GeneratedCode
from kernelwright.core.operator_graph import OperatorGraph
from kernelwright.evaluators.settings import Lowering, Settings
from kernelwright.runtime.first_kernels import OpenProblem, first_kernels_of

from ..fakes import PROFILE, evaluation

RECORDED = Path(__file__).parents[1] / "agent" / "first_kernels" / "inductor_h200.jsonl.xz"


class Compiler:
    """What is recorded of torch's compiler, and latencies that are made up, in the place of an evaluator."""

    def __init__(self, name: str) -> None:
        lines = lzma.decompress(RECORDED.read_bytes()).splitlines()
        self._recorded = next(found for found in map(json.loads, lines) if found["id"] == name)
        self.problem = TorchProblem(id=name, name=self._recorded["name"], source=self._recorded["reference"])
        self.asked = 0
        self.latencies: dict[str, float | None] = {}
        self.settings = Settings()
        self.quick: list[Kernel] = []
        """Kernels that were only screened."""
        self.screened_ms: dict[str, float] = {}
        """By precision: of kernels that a quick evaluation finds correct."""
        self.obstacle = ""
        self.lowerings: list[Lowering] = []
        self.graph: OperatorGraph | str = "the reference writes to its weights"

    def add_line(self, line: str) -> None:
        """Add a line to the code's `call`, before its end."""
        code = self._recorded["code"]
        before, end, after = code["source"].partition("    return (buf")
        assert end
        self._recorded["code"] = {**code, "source": f"{before}    {line}\n{end}{after}"}

    def beside(self, settings: Settings) -> Compiler:
        assert settings.search is not None and replace(settings, search=None) == self.settings
        return self

    def screen(self, problem: Problem, kernels: Sequence[Kernel]) -> Iterator[Evaluation]:
        self.quick += kernels
        for kernel in kernels:
            ms = self.screened_ms.get(str(kernel.config.get("PRECISION")))
            wrong = Evaluation(status=Status.WRONG_VALUE, kernel_digest=kernel.digest, message="less exact")
            yield wrong if ms is None else evaluation(kernel, Config(), ms)

    def evaluate(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> Iterator[Evaluation]:
        ms = self.latencies[kernel.digest]
        found = evaluation(kernel, configs[0], ms or 1.0)
        yield found if ms is not None else found.model_copy(update={"measurement": None, "reference": None})

    def profile(self, problem: Problem) -> Profile:
        return PROFILE

    def operator_graph(self, problem: Problem) -> OperatorGraph | str:
        return self.graph

    def generated_code(self, problem: Problem, lowering: Lowering | None = None) -> GeneratedCode | str:
        self.asked += 1
        self.lowerings.append(lowering or self.settings.lowering(problem))
        return self.obstacle or GeneratedCode.model_validate(self._recorded["code"])


def made_by(
    compiler: Compiler, path: Path, resume: bool, writer: Any = None, emit: Callable[[object], None] = ignore
) -> list[Kernel]:
    task = OpenProblem(compiler.problem, "triton", "cuda")
    writing = writer and contextlib.nullcontext(writer)
    return first_kernels_of(task, compiler, writing, path, resume, emit)  # type: ignore[arg-type]


class Writer:
    """A model that replies the same each time."""

    def __init__(self, reply: Kernel | Exception) -> None:
        self._reply = reply
        self.shown: object = None
        """The kernel of structures, with its time."""

    def write(self, *given: object) -> Kernel:
        self.shown = given[-1]
        if isinstance(self._reply, Exception):
            raise self._reply
        return self._reply
