"""Search the parameters of a decoding kernel: attention of few queries to a long cache, with split keys.

The search starts from estimates by occupancy. The best config is compared with each backend of torch's SDPA.

Exit codes: 0 a config is faster than the start, 1 none was correct, 2 wrong usage, 3 nothing faster was found.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import computed_field

from ...core import Config, DeviceError, Evaluation, KernelwrightError, OptionError
from ...core.events import Emit, Note
from ...core.space_inference import named_sizes
from ...corpus.problems import DECODING
from ...runtime import command, result
from ...runtime.devices import CPU, device_limits
from ...runtime.evaluators import at_workloads
from ...runtime.options.groups import OUTPUT, SEARCH, Backend, DeviceOptions, SaveOptions
from ...runtime.options.option import option
from ...runtime.options.trust import TimingOptions
from ...runtime.runtime import Runtime
from ...tuners import catalogue
from ...tuners.decoding import DecodeShape
from ...tuners.discovery import space_of
from ...tuners.schedule.sdpa import SdpaBackend as Library
from ...tuners.schedule.sdpa import problem_by
from . import kernel as tune_kernel

EXAMPLES = (
    "tune decoding --batch-size 8 --num-heads 32 --num-kv-heads 8 --seq-len-k 8192",
    "tune decoding --seq-len-q 4 --seq-len-k 32768 --trials 100 --plot",
)
SHAPE = "Problem"
LIKELY = 6
"""Number of configs, the best by estimate, with which a search begins."""


class Element(StrEnum):
    """Element types of queries, keys and values."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


@dataclass(frozen=True, kw_only=True)
class Options(SaveOptions, TimingOptions, DeviceOptions):
    """Search the parameters of the decoding kernel."""

    batch_size: int = option(1, "Sequences.", SHAPE, at_least=1)
    num_heads: int = option(32, "Heads of queries.", SHAPE, at_least=1)
    num_kv_heads: int | None = option(
        None, "Heads of keys and values, shared by groups of query heads; by default as many.", SHAPE, at_least=1
    )
    seq_len_q: int = option(1, "Newest positions of each sequence: the queries.", SHAPE, at_least=1)
    seq_len_k: int = option(8192, "Keys of each sequence, those of the newest positions too.", SHAPE, at_least=1)
    head_dim: int = option(128, "Elements of a query and a key.", SHAPE, at_least=1)
    head_dim_kv: int | None = option(None, "Elements of a value; by default as many as of a key.", SHAPE, at_least=1)
    dtype: Element = option(Element.BFLOAT16, "Element type: bfloat16, float16 or float32.", SHAPE)
    tuner: str = option("portfolio", "{choices}.", SEARCH, choices=catalogue.choices)
    trials: int = option(60, "At most this many configs.", SEARCH, at_least=1)
    seconds: float | None = option(None, "Start no trials after this time.", SEARCH, above=0)
    patience: int | None = option(None, "Stop after this many trials without a better one.", SEARCH, at_least=1)
    seed: int = option(0, "Random seed of the tuner.", SEARCH)
    plot: bool = option(False, "Write the convergence curve as PNG.", OUTPUT)

    @property
    def shape(self) -> DecodeShape:
        """The problem's sizes; raises `OptionError` for ones that the kernel cannot have."""
        return DecodeShape(
            batch=self.batch_size,
            heads=self.num_heads,
            kv_heads=self.num_kv_heads or self.num_heads,
            queries=self.seq_len_q,
            keys=self.seq_len_k,
            head_dim=self.head_dim,
            head_dim_kv=self.head_dim_kv or self.head_dim,
            width=4 if self.dtype is Element.FLOAT32 else 2,
        )

    @property
    def workload(self) -> str:
        """The sizes as the problem names them."""
        s = self.shape
        sizes = {
            "batch_size": s.batch, "heads": s.heads, "kv_heads": s.kv_heads, "seq_len_q": s.queries,
            "seq_len_k": s.keys, "head_dim": s.head_dim, "head_dim_kv": s.head_dim_kv, "dtype": self.dtype.value,
        }  # fmt: skip
        return ",".join(f"{name}={size!r}" for name, size in sizes.items())

    def check(self) -> None:
        """Raise `OptionError` for sizes that the kernel cannot have, and an unknown tuner."""
        super().check()
        catalogue.check(self.tuner)
        _ = self.shape


@dataclass(frozen=True)
class Plan(command.Plan):
    """A search of the kernel's parameters from the analytic start."""

    search: tune_kernel.Plan
    start: Config
    """The best config by estimate."""

    def to_json(self) -> dict[str, Any]:
        """The search's plan, with its start."""
        return {**self.search.to_json(), "start": dict(self.start)}


class Result(tune_kernel.Result):
    """A finished search, its files, and the best config compared with torch's SDPA."""

    beside: result.ForPython[Mapping[Library, Evaluation]]
    """The best config timed interleaved with each SDPA backend that accepts the problem."""

    @result.computed
    def times_sdpa(self) -> dict[str, float]:
        """Speedup over each backend of SDPA."""
        return {
            library.name.lower(): found.reference.median_ms / found.latency_ms
            for library, found in self.beside.items()
            if found.reference is not None and found.latency_ms
        }

    @result.computed
    def times_best_sdpa(self) -> float | None:
        """Speedup over the fastest backend; None if none was timed."""
        return min(self.times_sdpa.values(), default=None)

    @computed_field(alias="kernel")
    @property
    def kernel_path(self) -> Path | None:
        """File of the kernel with the best config, which may be the start's; None if no config is correct."""
        if not self.save or self.found.best is None or self.unproven:
            return None
        return super().kernel_path or self.folder / "decoding_tuned.py"

    def lines(self) -> Iterator[Any]:
        """The winner, its gain over the analytic start, the files, and how SDPA compares."""
        yield from super().lines()
        for library in self.beside:
            yield f"{self.times_sdpa[library.name.lower()]:.3f} times as fast as {library}"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Choose the start, and check everything that needs no measurement."""
    if (device := runtime.device(options)) == CPU:
        raise DeviceError(
            "decoding is timed on a GPU, and there is none",
            f"'kernelwright evaluate {DECODING} --backend triton --device cpu' checks the kernel",
        )
    given = {item.name for item in dataclasses.fields(tune_kernel.Options)} & {
        item.name for item in dataclasses.fields(options)
    }
    same = {name: getattr(options, name) for name in given}
    search = tune_kernel.plan(
        tune_kernel.Options(**same, kernel=DECODING, backend=Backend.TRITON, workload=options.workload), runtime
    )
    kernel, problem = search.job.kernel, search.job.problem
    space = space_of(kernel, {}, (), named_sizes(problem), profiled=False).space
    likely = options.shape.likely(space, device_limits(device), LIKELY)
    if not likely:
        raise OptionError(
            "no config fits into a multiprocessor", "use a smaller `head_dim`, or fewer heads for one of keys"
        )
    start = likely[0][0]
    job = dataclasses.replace(search.job, kernel=kernel.bind(start))
    folder = tune_kernel.results_folder(options.results, job)
    return Plan(dataclasses.replace(search, job=job, folder=folder, warm=list(likely)), start)


def run(plan: Plan, emit: Emit) -> Result:
    """Search, compare the best config with SDPA, and write the result."""
    searched = tune_kernel.run(plan.search, emit)
    fields = {name: getattr(searched, name) for name in type(searched).model_fields}
    found = Result(**fields, beside=_beside(plan.search, searched, emit))
    found.write()
    return found


def _beside(search: tune_kernel.Plan, searched: tune_kernel.Result, emit: Emit) -> dict[Library, Evaluation]:
    """Return the best config timed interleaved with each SDPA backend that accepts the problem."""
    best, found = searched.found.best, dict[Library, Evaluation]()
    if best is None or searched.unproven:
        return found
    with contextlib.ExitStack() as stack:
        evaluator = at_workloads(search.open_evaluator, stack)
        for library in Library:
            try:
                problem = problem_by(library, search.job.problem)
                (timed,) = evaluator.compare(problem, search.job.kernel, [Config(best.config)])
            except KernelwrightError as error:
                emit(Note(f"not compared with {library}: {' '.join(str(error).split())}"))
                continue
            if timed.latency_ms and timed.reference is not None:
                found[library] = timed
            else:
                emit(Note(f"not compared with {library}: {timed.status}: {' '.join(timed.message.split())}"))
    return found
