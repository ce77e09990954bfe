"""What a module cannot do when it is compiled and when it runs, tried by modules; without a sandbox they can."""

from __future__ import annotations

import dataclasses
import errno
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelwright.core import Evaluation, MlirKernel, Status
from kernelwright.evaluators.iree.evaluator import IreeEvaluator
from kernelwright.evaluators.sandbox import bubblewrap, landlock
from kernelwright.evaluators.sandbox.places import Places
from kernelwright.evaluators.settings import Limits, Sampling, Sandbox, SearchSettings, Settings

from .attacks import RESULT, attacking, call, created, embedded, problem, read_at_run
from .modules import configs

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the modules are written for x86_64")

NO_BWRAP = bubblewrap.obstacle(Places.of_this_process())
SANDBOXES = [
    pytest.param(Sandbox.LANDLOCK, marks=pytest.mark.skipif(not landlock.abi(), reason="no Landlock")),
    pytest.param(Sandbox.BWRAP, marks=pytest.mark.skipif(NO_BWRAP is not None, reason=str(NO_BWRAP))),
]
QUICK = Sampling(0.05, seconds=0.05, min_samples=6, max_samples=50, chunk_s=0.005, heeds_load=False)
SETTINGS = Settings(
    sampling=QUICK,
    search=SearchSettings(prune_factor=1e3, sampling=QUICK),
    limits=Limits(compile_s=60.0, call_s=3.0, memory_gib=1.0, file_gib=0.25),
)
SECRET, KEY = "PLANTED-SECRET", "planted-key-of-a-service"
HIDDEN = {RESULT - errno.EACCES, RESULT - errno.ENOENT, RESULT - errno.EROFS}


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home") / "id_ed25519"
    path.write_text(SECRET)
    return path


@pytest.fixture(scope="module")
def planted() -> Iterator[None]:
    """A key in the environment from which the sandbox is started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVICE_PASSWORD", KEY)
        yield


def made(sandbox: Sandbox, memory: Path) -> IreeEvaluator:
    return IreeEvaluator("cpu", settings=dataclasses.replace(SETTINGS, sandbox=sandbox), memory=memory)


@pytest.fixture(scope="module", params=SANDBOXES)
def evaluator(
    request: pytest.FixtureRequest, planted: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[IreeEvaluator]:
    with made(request.param, tmp_path_factory.mktemp("modules")) as evaluator:
        yield evaluator


@pytest.fixture(scope="module")
def outside(planted: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IreeEvaluator]:
    """One without a sandbox, in which each attack must succeed."""
    with made(Sandbox.NONE, tmp_path_factory.mktemp("modules")) as evaluator:
        yield evaluator


def evaluated(evaluator: IreeEvaluator, kernel: MlirKernel) -> Evaluation:
    (found,) = evaluator.evaluate(problem(), kernel, [configs(attack=1)])
    return found


def returned(evaluator: IreeEvaluator, *assembly: str) -> int:
    """What an attack returns, from the message about a result that is not the default module's."""
    found = evaluated(evaluator, attacking(*assembly))
    assert found.status is Status.WRONG_VALUE, found
    return int(found.message.partition("the first at (0, 0): ")[2].partition(" against 0")[0])


def modules_of(evaluator: IreeEvaluator) -> list[Path]:
    return list(Path(str(evaluator._compilers["folder"])).rglob("*.vmfb"))


def test_the_compiler_embeds_no_file_of_the_user(
    evaluator: IreeEvaluator, outside: IreeEvaluator, secret: Path
) -> None:
    stolen = attacking(*embedded(secret))
    assert returned(outside, *embedded(secret)) == RESULT + ord(SECRET[0])
    assert any(SECRET.encode() in path.read_bytes() for path in modules_of(outside))
    found = evaluated(evaluator, stolen)
    assert found.status is Status.COMPILE_ERROR and "incbin" in found.message
    assert SECRET not in found.message + found.log
    assert not any(SECRET.encode() in path.read_bytes() for path in modules_of(evaluator))


def test_a_refusal_in_a_sandbox_counts_there_alone(evaluator: IreeEvaluator, secret: Path) -> None:
    theirs = attacking("nop", *embedded(secret))
    assert evaluated(evaluator, theirs).status is Status.COMPILE_ERROR
    with made(Sandbox.NONE, Path(str(evaluator._compilers["folder"]))) as outside:
        assert evaluated(outside, theirs).status is Status.WRONG_VALUE
    for path in modules_of(evaluator):
        if SECRET.encode() in path.read_bytes():
            path.unlink()


def test_the_compiler_has_no_key_and_sees_no_process_that_has_one(evaluator: IreeEvaluator) -> None:
    program = f"""
import os, sys
seen = ["PATH" in os.environ, {KEY!r} in str(os.environ)]
try:
    open("/proc/{os.getpid()}/environ").read()
except OSError as error:
    seen.append(type(error).__name__)
sys.stderr.write(str(seen))
"""
    worker = evaluator._processes.compiler()
    source = worker.inbox / "source.mlir"
    source.touch()
    answer = worker.call(60, op="compile", command=[sys.executable, "-c", program], source=str(source))
    worker.discard()
    assert answer["said"] in ("[True, False, 'PermissionError']", "[True, False, 'FileNotFoundError']")


def test_a_module_reads_no_file_of_the_user(evaluator: IreeEvaluator, outside: IreeEvaluator, secret: Path) -> None:
    assert returned(outside, *read_at_run(secret)) == RESULT + ord(SECRET[0])
    assert returned(evaluator, *read_at_run(secret)) in HIDDEN
    assert returned(evaluator, *read_at_run(Path(f"/proc/{os.getpid()}/environ"))) in HIDDEN


def test_a_module_gets_no_key(evaluator: IreeEvaluator) -> None:
    runner = evaluator._runner_of(problem())
    environment = Path(f"/proc/{runner.pid}/environ").read_bytes()
    assert b"PATH=" in environment and KEY.encode() not in environment


def test_a_module_writes_nowhere_outside(evaluator: IreeEvaluator, outside: IreeEvaluator, tmp_path: Path) -> None:
    assert returned(outside, *created(tmp_path / "a")) > RESULT and (tmp_path / "a").exists()
    own = {Path.home(), Path.cwd(), Path("/tmp"), Path("/dev/shm"), *(path.parent for path in modules_of(evaluator))}
    for folder in (tmp_path, *own):
        path = folder / f"kernelwright-{os.getpid()}"
        found = returned(evaluator, *created(path))
        assert not path.exists()
        assert found in HIDDEN or folder == Path("/dev/shm")  # of its own, under bubblewrap


def test_a_module_has_no_network_and_reaches_no_other_process(evaluator: IreeEvaluator, outside: IreeEvaluator) -> None:
    socket = call(41, 2, 1, 0)
    assert returned(outside, *socket) > RESULT
    assert returned(evaluator, *socket) == RESULT - errno.EPERM
    kill = call(62, os.getpid(), 0)
    assert returned(outside, *kill) == RESULT
    assert returned(evaluator, *kill) in (RESULT - errno.EPERM, RESULT - errno.ESRCH)


@pytest.mark.parametrize(
    ("assembly", "status"),
    [(["1: jmp 1b"], Status.TIMEOUT), (["ud2"], Status.CRASHED), (call(231, 0), Status.CRASHED)],
    ids=["hangs", "crashes", "exits"],
)
def test_what_ends_its_process_is_a_result_and_the_next_module_runs(
    evaluator: IreeEvaluator, assembly: list[str], status: Status
) -> None:
    found = evaluated(evaluator, attacking(*assembly))
    assert found.status is status, found.message
    assert returned(evaluator, "movl $$7, %eax") == RESULT + 7


def test_memory_is_limited_where_a_module_runs_and_where_it_is_compiled(evaluator: IreeEvaluator) -> None:
    private_writable = call(9, 0, 2 << 30, 3, 0x22, -1, 0)
    assert returned(evaluator, *private_writable) == RESULT - errno.ENOMEM
    large = evaluated(evaluator, attacking("jmp 2f", f".zero {3 << 29}", "2: movl $$1, %eax"))
    assert large.status in (Status.COMPILE_ERROR, Status.CRASHED), large


def test_records_say_which_sandbox_it_was(evaluator: IreeEvaluator) -> None:
    found = evaluated(evaluator, attacking("movl $$1, %eax"))
    assert found.environment["sandbox"] == evaluator.settings.sandbox
