"""Untrusted code in each sandbox that there is, at a home with secrets."""

from __future__ import annotations

import ast
import dataclasses
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Problem, PythonKernel
from kernelwright.evaluators.compilation.pool import CompileResult
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.processes import Processes
from kernelwright.evaluators.sandbox import bubblewrap, containment, landlock
from kernelwright.evaluators.sandbox.places import Places
from kernelwright.evaluators.settings import Sandbox

from ...conftest import FAST, SCALE_KERNEL

NO_BWRAP = bubblewrap.obstacle(Places.of_this_process())
NO_LANDLOCK = None if landlock.abi() >= landlock.CONFINES_SIGNALS else "an old kernel's Landlock"
BWRAP = pytest.mark.skipif(NO_BWRAP is not None, reason=str(NO_BWRAP))
LANDLOCK = pytest.mark.skipif(NO_LANDLOCK is not None, reason=str(NO_LANDLOCK))
BWRAP_ALONE = "bwrap without Landlock"
CHECKOUT = Path(containment.__file__).resolve().parents[2]

SAYS = "RuntimeError: returned "

Compile = Callable[[str], CompileResult]
Untrusted = Callable[..., Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with secrets in it."""
    home = tmp_path_factory.mktemp("home")
    for name in (".ssh/id_ed25519", ".netrc", ".config/service/key"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("SERVICE_API_KEY", "not for kernels")
        # As importing torch may leave it; inside it cannot be made.
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(home / "inductor"))
        yield home


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("landlock", marks=LANDLOCK),
        pytest.param("bwrap", marks=BWRAP),
        pytest.param(BWRAP_ALONE, marks=BWRAP),
    ],
)
def sandbox(request: pytest.FixtureRequest) -> str:
    """Each sandbox that there is."""
    return str(request.param)


@pytest.fixture(scope="module")
def evaluator(sandbox: str, home: Path) -> Iterator[LocalEvaluator]:
    """One in each sandbox."""
    settings = dataclasses.replace(FAST, sandbox=Sandbox(sandbox.split()[0]))
    with LocalEvaluator(settings=settings) as evaluator:
        if sandbox == BWRAP_ALONE:
            processes = evaluator.processes
            processes.servers.containment = dataclasses.replace(processes.servers.containment, confines_workers=False)
        yield evaluator


@pytest.fixture
def processes(evaluator: LocalEvaluator) -> Processes:
    return evaluator.processes


@pytest.fixture(scope="module")
def compiled(evaluator: LocalEvaluator, scale_problem: Problem) -> Iterator[Compile]:
    """What comes of a text that a compiler in the sandbox is given; it executes it."""
    processes = evaluator.processes
    with processes.compilers(scale_problem, processes.cache(PythonKernel.parse(SCALE_KERNEL)), 1) as pool:
        yield lambda source: pool.submit(source).result(timeout=60)


@pytest.fixture(scope="module")
def untrusted(compiled: Compile) -> Untrusted:
    """What a function's body returns that is executed in the sandbox, its names given."""

    def untrusted(body: str, **names: object) -> Any:
        given = "".join(f"{name} = {value!r}\n" for name, value in names.items())
        code = f"import os, socket\n{given}\ndef tried():\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
        told = compiled(code + "raise RuntimeError(f'returned {tried()!r}')\n").message
        assert told.startswith(SAYS), told
        return ast.literal_eval(told.removeprefix(SAYS).splitlines()[0])

    return untrusted
