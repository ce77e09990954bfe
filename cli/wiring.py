"""Which concrete classes a command uses: the only place that names them."""

from __future__ import annotations

import contextlib
import ctypes
import platform
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ..agent.rules import Machine
from ..core import (
    DEFAULT_WORKLOAD,
    DeviceError,
    Hit,
    Kernel,
    Language,
    OptionError,
    ProblemError,
    Query,
    Retriever,
    Target,
    TorchProblem,
)
from ..core.files import memory_folder
from ..corpus import find_kernel, find_problem, list_problems
from ..evaluators.local import LocalEvaluator
from ..evaluators.multi_device import MultiDeviceEvaluator
from ..evaluators.pipeline.processes import cores
from ..evaluators.remote.evaluator import RemoteEvaluator
from ..evaluators.remote.machines import Remote
from ..evaluators.settings import Limits, SearchSettings, Settings
from .request import Request
from .trust import TRUSTED, Trust

CPU, CUDA = "cpu", "cuda"


@dataclass(frozen=True)
class Job:
    """A kernel, its problem at the right sizes, and the device."""

    kernel: Kernel
    problem: TorchProblem
    device: str
    reference: str
    """How the user, or a list, named the kernel."""
    where: str = ""
    """What machines evaluate it, such as 'Modal H100'; empty for this one."""
    trust: Trust = TRUSTED

    @property
    def label(self) -> str:
        """What journals and folders call the device."""
        return self.where or device_label(self.device)

    @property
    def backend(self) -> str:
        """'tilelang_cpu', 'tilelang' or 'triton'."""
        on_cpu = self.kernel.target is Target.CPU
        return f"{self.kernel.language}_cpu" if on_cpu else str(self.kernel.language)


def cuda_devices() -> int:
    """How many CUDA devices the driver shows; asks the driver itself, since torch takes a second to import."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def device_label(device: str) -> str:
    """The name of a device, found without importing torch."""
    if device == CPU:
        lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        return f"{names[0] if names else platform.machine()}, {cores()} cores"
    driver, name = ctypes.CDLL("libcuda.so.1"), ctypes.create_string_buffer(256)
    handle = ctypes.c_int(0)
    driver.cuInit(0)
    driver.cuDeviceGet(ctypes.byref(handle), int(device.partition(":")[2] or 0))
    driver.cuDeviceGetName(name, len(name), handle)
    return name.value.decode()


def choose_device(request: Request, remote: Remote | None = None) -> str:
    """The device that is asked for, or the best one there is. Raises `DeviceError` when it is not there."""
    device = remote.device if remote is not None else _device_here(request)
    if request.trust.graph and device == CPU:
        raise OptionError("--graph captures CUDA graphs, and the device is the CPU; leave it out, or use a GPU")
    return device


def _device_here(request: Request) -> str:
    devices = cuda_devices()
    wanted = request.device
    if wanted == "auto":
        return CPU if not devices or request.backend == "tilelang_cpu" else CUDA
    if wanted == CPU:
        return CPU
    name, _, number = wanted.partition(":")
    if name != CUDA or (number and not number.isdigit()):
        raise DeviceError(f"no device {wanted!r}; use cpu, cuda, cuda:N or auto")
    if int(number or 0) >= devices:
        raise DeviceError(f"no device {wanted}: the driver shows {devices} CUDA device(s); use --device cpu")
    return wanted


def choose_devices(request: Request, remote: Remote | None = None) -> list[str]:
    """The devices of a list such as 'cuda:0,cuda:1'."""
    if remote is not None:
        return [choose_device(request, remote)]
    chosen = [choose_device(replace(request, device=name.strip())) for name in request.device.split(",")]
    if len(set(chosen)) != len(chosen):
        raise DeviceError(f"--device {request.device} names a device twice")
    if len(chosen) > 1 and CPU in chosen:
        raise DeviceError(f"--device {request.device}: several devices must all be GPUs")
    return chosen


def choose_backend(request: Request, device: str) -> str:
    """The backend that is asked for, or the device's own."""
    return request.backend or ("tilelang_cpu" if device == CPU else "tilelang")


def job(request: Request, reference: str, device: str, remote: Remote | None = None) -> Job:
    """Find and read the kernel and its problem; every mistake is a `KernelwrightError`."""
    file = find_kernel(reference, choose_backend(request, device), request.dataset)
    kernel = file.read()
    problem = find_problem(request.problem or file.problem, request.dataset).read()
    if device == CPU and kernel.target is Target.CUDA and kernel.language is not Language.TRITON:
        raise DeviceError(f"{reference} is a CUDA kernel, and the device is the CPU; use --backend tilelang_cpu")
    if device != CPU and kernel.target is Target.CPU:
        raise DeviceError(f"{reference} is a CPU kernel; use --device cpu")
    at = at_workload(problem, kernel, device, request.workload)
    return Job(kernel, at, device, reference, remote.label if remote else "", request.trust)


def at_workload(problem: TorchProblem, kernel: Kernel, device: str, wanted: str | None) -> TorchProblem:
    """The problem at the sizes that are asked for; by default its own on a GPU, and smaller ones on a CPU.

    A KernelBench file names no workloads. Where it has the same constants as the shipped problem of its number,
    that one's workloads serve. Triton's interpreter gets the smallest sizes.
    """
    if wanted is not None:
        return problem.at(wanted)
    preferred = () if device != CPU else ("tiny", "cpu") if kernel.language is Language.TRITON else ("cpu",)
    shipped = next((file.read() for file in list_problems() if file.id == problem.id), problem)
    for name in preferred:
        for source in (problem, shipped):
            if name in source.workloads:
                with contextlib.suppress(ProblemError):
                    return problem.resized(name, source.workloads[name])
    return problem.at(DEFAULT_WORKLOAD)


def evaluator(device: str, settings: Settings | None = None, trust: Trust = TRUSTED) -> LocalEvaluator:
    """The evaluator of this machine."""
    return LocalEvaluator(device, trust.applied(settings or Settings()), memory=memory_folder())


def remote_evaluator(remote: Remote, settings: Settings | None = None, trust: Trust = TRUSTED) -> RemoteEvaluator:
    """The evaluator of other machines, for any number of lanes at once."""
    return remote.evaluator(trust.applied(settings or Settings()))


def search_evaluator(
    devices: list[str],
    compilers: int | None,
    adaptive: bool,
    compile_s: float,
    trust: Trust = TRUSTED,
    remote: Remote | None = None,
) -> LocalEvaluator | MultiDeviceEvaluator | RemoteEvaluator:
    """An evaluator for many configs: `compilers` processes per device work ahead of it, by default a fair share.

    On a GPU, where the next choice depends on what is known, fewer configs are under way at once.
    """
    if remote is not None:
        return remote.search_evaluator(compilers, adaptive, trust.applied(Settings(limits=Limits(compile_s=compile_s))))
    ahead = devices != [CPU]
    if compilers is None:
        share = cores() // len(devices)
        compilers = max(1, share // 2 if ahead and adaptive else share)
    window = 4 * compilers if ahead and not adaptive else compilers
    settings = Settings(limits=Limits(compile_s=compile_s), search=SearchSettings(compilers, window))
    members = [evaluator(device, settings, trust) for device in devices]
    return members[0] if len(members) == 1 else MultiDeviceEvaluator(members)


class Examples:
    """The shipped examples and what runs in a results folder have found, searched by meaning and by words.

    Loaded when they are first asked for: the embedding model takes seconds, and a resumed run may need none of it.
    """

    def __init__(self, results: Path, note: Callable[[str], None]) -> None:
        self._results = results
        self._note = note
        self._lock = threading.Lock()
        self._retriever: Retriever | None = None

    def search(self, query: Query, k: int) -> list[Hit]:
        """See `core.Retriever`."""
        with self._lock:
            if self._retriever is None:
                self._retriever = self._load()
        return self._retriever.search(query, k)

    def _load(self) -> Retriever:
        from ..corpus.examples import load_examples
        from ..rag import ExampleRetriever, load_embedder, run_examples

        examples = [*load_examples(self._note), *run_examples(self._results, self._note)]
        return ExampleRetriever(examples, load_embedder(self._note), memory_folder() / "examples", self._note)


class Evaluators:
    """The evaluators of a run: as many as its lanes can use, and one that judges many configs quickly.

    Lanes on a CPU take turns on one, since whatever runs beside a timing spoils it.
    """

    def __init__(self, device: str, lanes: int, trust: Trust = TRUSTED, remote: Remote | None = None) -> None:
        self._device = device
        self._remote = remote
        self._trust = trust
        self._stack = contextlib.ExitStack()
        self._searcher: LocalEvaluator | MultiDeviceEvaluator | RemoteEvaluator | None = None
        settings = Settings(compile_ahead=lanes > 1)
        self.pool: list[LocalEvaluator | RemoteEvaluator] = []
        if remote is not None:
            self.pool += [remote_evaluator(remote, settings, trust)] * min(lanes, remote.lanes)
        else:
            for _ in range(1 if device == CPU else lanes):
                self.pool.append(self._stack.enter_context(evaluator(device, settings, trust)))

    def searcher(self) -> LocalEvaluator | MultiDeviceEvaluator | RemoteEvaluator:
        """Made when it is first asked for."""
        if self._searcher is None:
            limit = Limits().compile_s
            self._searcher = search_evaluator([self._device], None, True, limit, self._trust, self._remote)
            self._stack.enter_context(self._searcher)
        return self._searcher

    def __enter__(self) -> Evaluators:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def machine(device: str) -> Machine:
    """What the rules may know of the device."""
    if device != CPU:
        return Machine(cores=1)
    return Machine(cores=cores())
