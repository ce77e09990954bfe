"""IREE's compiler as processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelwright.core import DeviceError
from kernelwright.evaluators.compilation.pool import CompileStatus
from kernelwright.evaluators.iree import compiler as module
from kernelwright.evaluators.iree.compiler import IreeCompiler, first_error, require
from kernelwright.evaluators.iree.processes import IreeProcesses
from kernelwright.evaluators.iree.target import IreeTarget
from kernelwright.evaluators.settings import Limits, Sandbox

from .modules import MATMUL

CPU = IreeTarget("cpu")


@pytest.fixture(scope="module")
def processes() -> Iterator[IreeProcesses]:
    made = IreeProcesses("cpu", Limits(), Sandbox.NONE)  # what plays the compiler here lies in a folder of the tests
    yield made
    made.close()


@pytest.fixture
def compiler(processes: IreeProcesses, tmp_path: Path) -> Iterator[IreeCompiler]:
    made = IreeCompiler(CPU, processes, tmp_path, count=2)
    yield made
    made.close()


def program(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that does something else."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    monkeypatch.setattr(module, "find_compiler", lambda: path)


def test_equal_code_has_one_digest_whatever_its_layout(compiler: IreeCompiler) -> None:
    first, second = compiler.submit(MATMUL), compiler.submit(MATMUL.replace("%sum", "%total") + "\n\n")
    assert first.result().status is CompileStatus.COMPILED and first.result().seconds
    assert first.result().digest == second.result().digest


def test_what_was_compiled_is_kept_by_its_content(
    compiler: IreeCompiler, processes: IreeProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, wrong = compiler.submit(MATMUL).result(), compiler.submit(MATMUL.replace("0.0", "zero")).result()
    program(tmp_path / "none", "exit 9", monkeypatch)
    again = IreeCompiler(CPU, processes, tmp_path)
    assert again.submit(MATMUL).result().path == first.path
    assert again.submit(MATMUL.replace("0.0", "zero")).result().message == wrong.message
    kept = {*tmp_path.rglob("*.txt")}
    assert kept
    lost = again.submit(MATMUL + "\n").result()  # another text, and no compiler: no verdict, so nothing is kept
    assert lost.status is CompileStatus.LOST and "refuses the simplest module as well" in lost.message
    assert {*tmp_path.rglob("*.txt")} == kept
    again.close()


def test_a_refusal_has_the_line(compiler: IreeCompiler) -> None:
    refused = compiler.submit(MATMUL.replace("32x48xf32> {", "32x49xf32> {", 1)).result()
    assert refused.status is CompileStatus.FAILED
    assert refused.message.startswith("line 8: ")


def test_a_crash_and_a_hang_are_results(
    processes: IreeProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "crashes", "echo 'Assertion failed: tile' >&2; kill -SEGV $$", monkeypatch)
    crashing = IreeCompiler(CPU, processes, tmp_path / "a")
    found = crashing.submit(MATMUL).result()
    assert found.status is CompileStatus.CRASHED
    assert found.message == "IREE's compiler was killed by SIGSEGV: Assertion failed: tile"
    crashing.close()
    program(tmp_path / "hangs", "sleep 60 & wait", monkeypatch)
    hanging = IreeCompiler(CPU, processes, tmp_path / "b", seconds=0.1)
    assert hanging.submit(MATMUL).result().message == "IREE's compiler took longer than 0.1 s"
    hanging.close()


def test_code_for_a_gpu_is_compiled_without_one(processes: IreeProcesses, tmp_path: Path) -> None:
    target = IreeTarget("cuda", repeats=4)
    compiler = IreeCompiler(target, processes, tmp_path)
    assert compiler.submit(MATMUL).result().status is CompileStatus.COMPILED
    compiler.close()


def test_a_target_that_the_package_lacks_is_named(processes: IreeProcesses, tmp_path: Path) -> None:
    target = IreeTarget("cuda", "sm_90")
    compiler = IreeCompiler(target, processes, tmp_path)
    found = compiler.submit(MATMUL).result()
    with pytest.raises(DeviceError, match="no target sm_90 for cuda; name another `chip`, such as sm_80"):
        require(found, "matmul", target)
    compiler.close()


def test_the_first_error_of_a_log() -> None:
    assert first_error("<stdin>:7:3: error: no such op\n<stdin>:1:1: note: from here") == "line 7: no such op"
    assert first_error("warning: x\nkilled\n") == "killed"
    assert first_error("") == "it said nothing"


@pytest.mark.parametrize("left", ["ln -s /etc/passwd", "mkdir", "mkfifo", "true"])
def test_what_is_no_plain_file_is_no_module(
    processes: IreeProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    program(tmp_path / "leaves", f'for last; do :; done; {left} "$last"', monkeypatch)
    compiler = IreeCompiler(CPU, processes, tmp_path)
    found = compiler.submit(MATMUL).result()
    assert found.status is CompileStatus.CRASHED and found.path is None
    assert found.message.startswith("IREE's compiler left no module: ")
    compiler.close()


def test_a_compiler_that_never_stops_talking_is_ended(
    processes: IreeProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "talks", "echo 'error: first' >&2; yes >&2", monkeypatch)
    compiler = IreeCompiler(CPU, processes, tmp_path, seconds=1.0)
    assert compiler.submit(MATMUL).result().status is CompileStatus.TIMEOUT
    program(tmp_path / "talked", "echo 'error: first' >&2; yes | head -c 100000000 >&2; exit 1", monkeypatch)
    assert compiler.submit(MATMUL + "\n").result().message.endswith(": first")
    compiler.close()
