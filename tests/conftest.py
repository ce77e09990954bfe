"""Problems and kernels small enough that a real compile and a real check take about a second."""

from __future__ import annotations

import contextlib
import gc
import itertools
import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Kernel, PythonKernel, Rejection, TorchProblem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import AllowTorch, Limits, Sampling, Sandbox, Settings
from kernelwright.runtime.devices import cuda_devices
from kernelwright.testing import scale
from kernelwright.testing.scale import SCALE_KERNEL as SCALE_KERNEL
from kernelwright.testing.scale import SCALE_PROBLEM as SCALE_PROBLEM

from . import runs, surroundings
from .slow import SLOW
from .toy_distribution import toy as toy
from .toy_distribution import toy_site as toy_site

OWN_FOLDER = surroundings.enter()
# A shell that runs tests in its background has them ignore Ctrl-C, nohup a closed terminal, and so would every command
# that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A candidate of plain torch: the evaluator needs a language to be named, not to be used.
TORCH_KERNEL = """
import tilelang.cpu.language as T
import torch
from torch import nn

{top}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def forward(self, x):
        {body}
"""

FAST = Settings(
    allow_torch=AllowTorch.ALL,
    sandbox=Sandbox.NONE,  # one server instead of two; tests/evaluators/sandbox/test_sandbox.py tries each
    second_workload=False,
    checks=2,
    limits=Limits(compile_s=60, call_s=6, memory_gib=1.0, file_gib=0.25),
    sampling=Sampling(seconds=0.03, chunk_s=0.01),
).quick()
PROVING = replace(FAST, replay_on_cpu=True, require_replay=True)
"""With launch plans, which take as long as all else of an evaluation on a CPU: for tests of what they do."""


@pytest.fixture(autouse=True)
def no_rule_fails(request: pytest.FixtureRequest) -> Iterator[None]:
    """A rewrite rule that fails in a test's own process fails the test: a run only logs it and goes on."""
    failed: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            failed.append(self.format(record))

    kept, log = Kept(logging.ERROR), logging.getLogger("kernelwright.agent.applied_rules")
    log.addHandler(kept)
    yield
    log.removeHandler(kept)
    assert not failed or request.node.get_closest_marker("failing_rules"), "\n".join(failed)


@pytest.fixture(scope="session")
def device_memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a GPU's rates are kept, so that one of the workers of a run measures them."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "device_memory"


@pytest.fixture(scope="session")
def on_gpu(device_memory: Path) -> Iterator[OnGpu]:
    """Opens evaluators with these settings on a GPU, with the same servers: each start of one imports torch anew."""
    with LocalEvaluator("cuda", Settings(limits=Limits(compile_s=240)), device_memory) as shared:

        @contextlib.contextmanager
        def opened(**settings: Any) -> Iterator[LocalEvaluator]:
            try:
                with shared.beside(replace(shared.settings, **settings)) as evaluator:
                    yield evaluator
            finally:
                shared.processes.leave_device()  # its memory is for others

        yield opened


class Unguarded(LocalEvaluator):
    """Runs what it would refuse for its source alone, so that what happens then is seen."""

    def _broken_rule(self, problem: TorchProblem, kernel: Kernel) -> Rejection | None:
        return None


def torch_kernel(body: str, top: str = "") -> Kernel:
    """A candidate whose forward is this text."""
    return PythonKernel.parse(TORCH_KERNEL.format(body=body, top=top))


OnGpu = Callable[..., contextlib.AbstractContextManager[LocalEvaluator]]
_TESTS = itertools.count()
FOLDER = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--passed", metavar="FILE", help="leave out the tests that FILE names, and add those that pass")


def pytest_configure(config: pytest.Config) -> None:
    """One folder for all workers of a run and the commands that they call."""
    gc.disable()  # imports make many objects that stay: see `pytest_collection_finish`
    config.pluginmanager.register(runs.LongFirst())
    if config.option.passed:
        config.pluginmanager.register(runs.Passed(config))
    if OWN_FOLDER is not None:
        config.add_cleanup(lambda: shutil.rmtree(OWN_FOLDER, ignore_errors=True))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Importing what is deselected would take longer than many of the tests that are left."""
    name = collection_path.relative_to(FOLDER).as_posix() + ("/" if collection_path.is_dir() else "")
    needless = {"not slow": name.startswith(SLOW)} | {gpu: runs.has_no_gpu_test(collection_path) for gpu in runs.GPU}
    return needless.get(config.option.markexpr) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What `SLOW` names is marked; GPU tests are left out, and say so, where no CUDA device is."""
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(SLOW):
            item.add_marker("slow")
    if cuda_devices():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))


def pytest_collection_finish() -> None:
    """What was imported and collected stays until the end: looking through it for garbage takes seconds.

    So does looking through syntax trees, of which rules make hundreds of thousands of nodes, every 700 objects.
    """
    gc.freeze()
    gc.set_threshold(400_000, 20, 20)
    gc.enable()


def pytest_unconfigure() -> None:
    """Triton counts what is left of it at the end of a process, and prints that."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def scale_problem() -> TorchProblem:
    return scale.scale_problem()


@pytest.fixture(scope="session")
def scale_kernel() -> Kernel:
    return scale.scale_kernel()


@pytest.fixture(scope="session")
def evaluator() -> Iterator[LocalEvaluator]:
    """One warm server for all tests."""
    with Unguarded(settings=FAST) as shared:
        yield shared


@pytest.fixture(scope="session")
def proving() -> Iterator[LocalEvaluator]:
    """One that makes launch plans."""
    with Unguarded(settings=PROVING) as shared:
        yield shared


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(cache))
    # What one test's run learned must not change what another's tries first.
    archive = tmp_path_factory.getbasetemp() / "archives" / f"{next(_TESTS)}.jsonl"
    monkeypatch.setenv("KERNELWRIGHT_ARCHIVE", str(archive))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(archive.with_suffix(".config")))
    if not cache.exists():  # the shipped examples are embedded once in a run: that takes seconds
        cache.mkdir()
        (cache / "examples").symlink_to(surroundings.example_vectors())
    # No test talks to a model of the person who runs it, or looks for prices on the network.
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")


@pytest.fixture
def kernel_file(tmp_path: Path) -> Path:
    """The scale kernel and its problem, as a user would have them."""
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "999_Scale.py").write_text(SCALE_PROBLEM)
    path = tmp_path / "1_999.py"
    path.write_text(SCALE_KERNEL)
    return path


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes, where this user may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("may not mount a file system: " + mounted.stderr.decode().strip())
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
