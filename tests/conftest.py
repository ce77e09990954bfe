"""Problems and kernels small enough that a real compile and a real check take about a second."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelwright.api.devices import cuda_devices
from kernelwright.core import Kernel, PythonKernel, Rejection, TorchProblem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import AllowTorch, Limits, Sampling, Sandbox, Settings

from .beside import FOLDER, OWNER, example_vectors, measure_beside_others, share_gpus, start_warm

share_gpus()
measure_beside_others()
start_warm()
# A shell that runs tests in its background has them ignore Ctrl-C, and so would every command that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

SCALE_PROBLEM = """
import torch
from torch import nn

rows = 64
columns = 256

WORKLOADS = {"cpu": {"rows": 32}, "tiny": {"rows": 4, "columns": 64}}


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return x * self.weight


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [columns]
"""

SCALE_KERNEL = '''"""Each row times a vector."""

import functools

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

COMPILE_FLAGS = ["-O3"]
BLOCK = 8

SEARCH_SPACE = {"BLOCK": [4, 8, 16]}


@functools.lru_cache(maxsize=None)
def build(M: int, N: int):
    @T.prim_func
    def scale(X: T.Tensor((M, N), "float32"), W: T.Tensor((N,), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, BLOCK)) as b:
            for i, j in T.grid(BLOCK, N):
                Y[b * BLOCK + i, j] = X[b * BLOCK + i, j] * W[j]

    return tilelang.compile(scale, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return build(*x.shape)(x, self.weight)
'''

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
    sampling=Sampling(seconds=0.03, min_samples=5, chunk_s=0.01, quiet_timeout_s=0.0),
)


@pytest.fixture(scope="session")
def device_memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a GPU's rates are kept, so that one of the workers of a run measures them."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "device_memory"


class Unguarded(LocalEvaluator):
    """Runs what it would refuse for its source alone, so that what happens then is seen."""

    def _broken_rule(self, problem: TorchProblem, kernel: Kernel) -> Rejection | None:
        return None


def torch_kernel(body: str, top: str = "") -> Kernel:
    """A candidate whose forward is this text."""
    return PythonKernel.parse(TORCH_KERNEL.format(body=body, top=top))


_TESTS = itertools.count()

LONG = (
    "test_exploits.py", "test_triton_rules.py", "test_corpus.py", "test_ray.py", "test_guides.py",
    "test_commands.py", "test_conversation.py", "test_triton_stream_rules.py", "test_docs.py", "test_rules.py",
    "test_faults.py", "test_bring_back.py", "test_from_inductor.py", "test_attention.py", "test_tune_mlir.py",
    "test_putting_back.py", "test_traces.py", "test_gemm.py", "test_convolutions.py", "test_tune_kernel.py",
    "test_against.py", "test_triton_structure_rules.py", "test_search.py", "test_recorded_code.py",
    "test_notebooks.py", "test_session.py", "test_gepa.py", "test_tilelang_cuda_rules.py", "test_fake_device.py",
    "test_agent_compile.py", "test_report.py", "test_agreement.py", "test_processes.py", "test_memory.py",
    "test_attention_turns.py", "test_first_step.py", "test_planted_key.py",
)  # fmt: skip
"""Files that take long come first: left for the end, one would keep a worker busy alone."""


def pytest_configure(config: pytest.Config) -> None:
    """One warm server for all workers of a run and the commands that they call."""
    gc.disable()  # imports make many objects that stay: see `pytest_collection_finish`
    if FOLDER in os.environ:
        return
    # Threads that wait for work must not spin: another worker measures on the same cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # For each new folder of its cache Inductor compiles and imports a file per kind of vector instructions, to see
    # whether the compiler has them: half of what a compilation takes, and the tests have many such folders.
    os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
    folder = Path(tempfile.mkdtemp(prefix="kernelwright-tests-"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ |= {FOLDER: str(folder), OWNER: str(os.getpid())}
    # Neither the configuration of the person who runs them nor that person's key for journals is in a test.
    os.environ |= {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_STATE_HOME": str(folder / "state")}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first; GPU tests are left out, and say so, where no CUDA device is."""
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONG)))
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
    """The process ends with all that it has: looking through it for garbage then takes seconds."""
    gc.disable()
    gc.freeze()


@pytest.fixture(scope="session")
def scale_problem() -> TorchProblem:
    return TorchProblem(id="level1/1_999", name="999_Scale", source=SCALE_PROBLEM).at("cpu")


@pytest.fixture(scope="session")
def scale_kernel() -> Kernel:
    return PythonKernel.parse(SCALE_KERNEL, "scale")


@pytest.fixture(scope="session")
def evaluator() -> Iterator[LocalEvaluator]:
    """One warm server for all tests."""
    with Unguarded(settings=FAST) as shared:
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
        (cache / "examples").symlink_to(example_vectors())
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
