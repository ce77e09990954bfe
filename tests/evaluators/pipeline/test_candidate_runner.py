"""One kernel after the other: what is done before the device is locked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kernelwright.core import Config, PythonKernel
from kernelwright.corpus import find_problem, list_kernels
from kernelwright.evaluators.pipeline.candidate_runner import CandidateRunner
from kernelwright.evaluators.pipeline.evaluation_context import EvaluationContext
from kernelwright.evaluators.settings import Settings


class CompilerRequestedError(Exception):
    """A compiler was asked for."""


def kernel(backend: str) -> PythonKernel:
    return next(file for file in list_kernels(backend) if file.problem == "level1/1_36").read()


@pytest.mark.parametrize(
    ("backend", "ready", "free", "waits"),
    [
        ("triton", False, True, False),
        ("triton", False, False, True),
        ("triton", True, True, True),
        ("tilelang", False, True, True),
    ],
)
def test_what_compiles_quickly_does_not_wait_for_the_server_of_compilers(
    backend: str, ready: bool, free: bool, waits: bool, tmp_path: Path
) -> None:
    def compilers(*_: object, **__: object) -> None:
        raise CompilerRequestedError

    processes: Any = SimpleNamespace(servers=SimpleNamespace(compilers_ready=ready), compilers=compilers)
    access: Any = SimpleNamespace(is_free=lambda reference: free)
    runner = CandidateRunner("cuda", Settings(), processes, cast(Any, None), access)
    runner._ahead = tmp_path
    reference: Any = SimpleNamespace(problem=find_problem("level1/1_36").read())
    if waits:
        with pytest.raises(CompilerRequestedError):
            runner.compile_ahead(reference, kernel(backend), Config())
    else:
        assert runner.compile_ahead(reference, kernel(backend), Config()) is None


@pytest.mark.parametrize("alive", [True, False])
def test_a_process_that_has_ended_is_not_started_to_free_its_memory(alive: bool) -> None:
    freed: list[str] = []
    client: Any = SimpleNamespace(alive=alive, release=lambda: freed.append("candidate"))
    reference: Any = SimpleNamespace(release=lambda: freed.append("reference"))
    EvaluationContext(reference, client, Settings(), "cuda", lambda: 0, cast(Any, None)).release()
    assert freed == [*(["candidate"] if alive else []), "reference"]
