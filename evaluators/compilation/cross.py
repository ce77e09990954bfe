"""Compiles shipped kernels for an architecture without a GPU of it, and reads their resources."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import DeviceError, Kernel, TorchProblem
from ...core.devices import architecture, torch_properties
from ..languages.base import CompiledKernel

TIMEOUT_S = 120.0
"""For each case, beside the start of the process."""


@dataclass(frozen=True)
class CrossCompiled:
    """What compiling one kernel came to."""

    kernels: tuple[CompiledKernel, ...]
    """Its launches in their order, each code once."""
    error: str = ""
    """Why there are none."""
    seconds: float = 0.0

    def product(self) -> CompiledKernel | None:
        """Return the launch that counts: of those with matrix instructions, or of all, the one with most registers."""
        with_matrix = [item for item in self.kernels if item.tensor_cores]
        return max(with_matrix or self.kernels, key=lambda item: item.registers, default=None)


def compile_for(name: str, cases: Sequence[tuple[TorchProblem, Kernel]]) -> Iterator[CrossCompiled]:
    """Compile kernels for an architecture such as 'gfx942', each for the sizes of its problem; yield in order.

    The kernels' Python runs in a process of its own on tensors without memory, without a sandbox: they must be
    trusted. Raises `DeviceError` for an architecture that is not known, or where the process ends early.
    """
    of = architecture(name)
    with tempfile.TemporaryDirectory() as folder:
        given = []
        for number, (problem, kernel) in enumerate(cases):
            source = Path(folder) / f"kernel{number}.py"
            source.write_text(kernel.source)
            given.append({"problem": str(problem.path), "sizes": dict(problem.sizes), "source": str(source)})
        task = json.dumps({"properties": torch_properties(of, of.card), "cases": given})
        environment = {**os.environ, "TRITON_CACHE_DIR": str(Path(folder) / "cache"), "TRITON_INTERPRET": "0"}
        command = [sys.executable, "-m", f"{__package__}.cross_program"]
        limit = TIMEOUT_S * (1 + len(cases))
        try:
            run = subprocess.run(
                command, input=task, capture_output=True, text=True, env=environment, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            raise DeviceError(f"compiling {len(cases)} kernels for {name} took more than {limit:.0f} s") from None
    lines = run.stdout.splitlines()
    if run.returncode != 0 or len(lines) != len(cases):
        reason = (run.stderr.strip().splitlines() or ["no message"])[-1]
        raise DeviceError(f"the compiler for {name} ended with code {run.returncode}: {reason}")
    yield from map(_read, map(json.loads, lines))


def _read(found: dict[str, Any]) -> CrossCompiled:
    kernels = [{**item, "tensor_cores": _tuple(item["tensor_cores"])} for item in found["kernels"]]
    return CrossCompiled(tuple(CompiledKernel(**item) for item in kernels), found["error"], found["seconds"])


def _tuple(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)
