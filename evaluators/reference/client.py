"""The client of the reference worker. A failure of the reference is the problem's fault."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property
from typing import Any

from ...core import ProblemError, Status, TorchProblem
from ...core.dynamic_size import FreeSize
from ...core.generated_code import GeneratedCode
from ...core.operator_graph import OperatorGraph
from ...core.problem import TOLERANCES
from ..guards.read_integers import IntegerSets
from ..guards.torch_share import Operator, families_of_start
from ..settings import Lowering
from ..timing.hidden_work import IdleDevice
from ..workers.channel import Message
from ..workers.client import Worker, WorkerDiedError, WorkerTimeoutError
from ..workers.memory import LARGE
from ..workers.shortages import ATTEMPTS

TIMEOUT_S = 600.0
"""Seconds. The reference is trusted; this only ends an endless wait."""
_PLACE = re.compile(r"\S+, line \d+: ")
"""Prefix of a line that refers to a user's file (`request_loop.describe`)."""
_NO_GPU = ("not compiled with CUDA", "Found no NVIDIA driver", "No CUDA GPUs are available", "out of meta tensor")
"""Torch's message about tensors on a device that this machine lacks."""
COMPILING = ("compile_ahead", "compile", "generate_ahead", "generate")
"""Requests after which torch's compiler has a memory, on which what it makes for other sizes may depend."""


class ReferenceLostError(ProblemError):
    """The reference worker was killed; it runs no code of a candidate."""


class ReferenceClient:
    """The reference of one problem, which gives weights, compares and is timed.

    Its worker starts while the caller goes on: importing a user's package takes seconds, as it does in the candidate's
    process. Whatever needs the worker waits for it, and raises `ProblemError` when the reference itself fails.
    """

    def __init__(self, problem: TorchProblem, worker: Worker, again: Callable[[], Worker] | None = None) -> None:
        """`again` starts another worker if this worker is killed before it is ready."""
        self.problem = problem
        self._worker = worker
        self._again = again
        self._moved = self._compiled = self._saves = self._closing = False
        self.integers = IntegerSets()
        """Those of the comparison that is under way; clients of one evaluator share them."""
        self.described_gpu = ""
        """The GPU that launchers see while an interpreter runs their kernels on a CPU."""
        self.run_start: Callable[[str | None, bool, int | None], Sequence[int]] | None = None
        """Runs a user's function as it stands on inputs of a distribution, and returns the inputs that it writes to;
        lets this worker learn its errors, if it is asked to, on inputs of a seed as well."""
        self.count_start: Callable[[int, int | None], Sequence[Operator]] | None = None
        """Returns the torch operators of a call of a user's function as it stands, on inputs of a seed, perhaps with
        the integers of another."""
        self._measured: set[str | None] = set()
        self._start_writes: frozenset[int] | None = None
        self._start_operators: dict[int | None, Sequence[Operator]] = {}
        self._held: int | None = None
        self.notes: dict[str, str] = {}
        """Further entries of the environment: how this machine evaluates."""
        self._gpu: Future[Message] = Future()
        self._opened: Future[Message] = Future()
        self._opening = threading.Thread(target=self._open, name="opening", daemon=True)
        self._opening.start()

    def _open(self) -> None:
        """Ask for the GPU's properties first: compilers need no more, and start while the problem is loaded."""
        waiting = {"properties": self._gpu, "open": self._opened}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                for op, future in waiting.items():
                    answer = self._answered(op)
                    if not future.done():
                        future.set_result(answer)
                return
            except BaseException as error:
                failure = error
            lost = isinstance(failure, ReferenceLostError) and attempt < ATTEMPTS
            if self._again is None or self._closing or not lost:
                break
            try:
                self._worker = self._again()
            except BaseException as error:
                failure = error
                break
        for future in waiting.values():
            if not future.done():
                future.set_exception(failure)

    def wait_ready(self) -> None:
        """Wait until the worker is ready, or has failed; what fails is raised when it is needed."""
        self._opening.join()

    @property
    def environment(self) -> dict[str, str]:
        """Device and versions."""
        return {**self._opened.result()["environment"], **self.notes}

    @property
    def arithmetic(self) -> dict[str, Any]:
        """The fields of evaluations that say how the reference computes: precision, default_is_reference."""
        return dict(self._opened.result()["arithmetic"])

    @cached_property
    def effects(self) -> dict[str, list[int]]:
        """Indices of the inputs that the reference itself writes to, or returns."""
        return {name: self._opened.result()[name] for name in ("changed", "returned", "shared")}

    @property
    def tensor_bytes(self) -> int:
        """Bytes of inputs, weights and outputs."""
        return int(self._opened.result()["tensor_bytes"])

    @property
    def has_outputs(self) -> bool:
        """Whether its results have elements: where they have none, nothing need be launched."""
        return bool(self._opened.result()["output_bytes"])

    @property
    def has_large_inputs(self) -> bool:
        """Whether inputs are drawn again rather than kept."""
        return bool(self._opened.result()["input_bytes"] > LARGE)

    @cached_property
    def written_weights(self) -> frozenset[str]:
        """The weights that the reference itself writes to: those of a normalization that keeps running statistics."""
        return frozenset(self._opened.result()["weights"])

    def call(self, op: str, **arguments: Any) -> Message:
        """Send a request to the reference worker, once it is ready, and return its response."""
        self._opened.result()
        return self._answered(op, **arguments)

    def _answered(self, op: str, **arguments: Any) -> Message:
        self._compiled = self._compiled or op in COMPILING
        try:
            answer = self._ask(TIMEOUT_S, op, **arguments)
        except WorkerTimeoutError:
            raise ProblemError(f"the reference of {self.problem.id} did not end in {TIMEOUT_S:g} s") from None
        except WorkerDiedError as died:
            lost = ReferenceLostError if died.killed else ProblemError
            if died.cause is not None:
                raise lost(f"the reference of {self.problem.id}: {died.cause}") from None
            raise lost(
                f"the reference of {self.problem.id} {died}; its last output: "
                f"{self._worker.log.splitlines()[-1:] or 'none (out of memory? `workload` sets smaller sizes)'}"
            ) from None
        if not answer["ok"]:
            self._worker.end()
            raise ProblemError(f"the reference of {self.problem.id} fails: {_reason(answer['error'])}")
        return answer

    def verdict(self, op: str, **arguments: Any) -> Message:
        """Compare; if a user's function fails, compare again once the unmodified function's errors are known."""
        found = self.call(op, **arguments)
        distribution = found.get("distribution", arguments.get("distribution"))
        wrong = found["status"] == Status.WRONG_VALUE and self.problem.tolerances == TOLERANCES
        if self.run_start is None or not wrong or distribution in self._measured:
            return found  # other tolerances are the user's choice
        self._measured.add(distribution)
        held, self._held = self._held, None
        if held is not None:
            self.call("hold_integers", integers=None)
        self.run_start(distribution, True, arguments.get("seed"))
        if held is not None:
            self.call("hold_integers", integers=held)
        self._held = held
        return self.call(op, **arguments)

    def side_effects(self, name: str, numbers: Iterable[int]) -> list[int]:
        """Return which of these side effects, of a name in `effects`, neither the reference has nor a user's function
        as it stands, such as one that writes to a workspace."""
        found = sorted(set(numbers) - set(self.effects[name]))
        if not found or name != "changed" or self.run_start is None:
            return found
        if self._start_writes is None:
            self._start_writes = frozenset(self.run_start(None, False, None))
        return [number for number in found if number not in self._start_writes]

    def torch_of_start(self, candidate: Sequence[Operator], seed: int, integers: int | None = None) -> frozenset[str]:
        """Return the families of operators in which torch does no more for a candidate than in a user's function as it
        stands, by counting both; `seed` is that of the candidate's inputs, `integers` that of those that are held."""
        if self.count_start is None:
            return frozenset()
        if integers not in self._start_operators:
            self._start_operators[integers] = tuple(self.count_start(seed, integers))
        return families_of_start(candidate, self._start_operators[integers])

    def _ask(self, seconds: float, op: str, **arguments: Any) -> Message:
        if self._moved:
            raise WorkerDiedError(None, "serves other sizes now")
        return self._worker.call(seconds, op=op, **arguments)

    def release(self) -> None:
        """Let the worker free what it can draw again, where that is large."""
        self.call("release")

    def finds_room(self) -> bool:
        """Return whether a check needs none of the memory that other processes have."""
        return bool(self.call("finds_room")["room"])

    @property
    def keeps_memory(self) -> bool:
        """Whether the worker keeps large tensors on a GPU that others might need."""
        return not self._saves and self.tensor_bytes > LARGE and self.properties is not None

    def save_memory(self) -> None:
        """Let the worker keep nothing large from now on."""
        self._saves = True
        self.call("save_memory")

    def rehearse(self) -> None:
        """Run the steps that use the most memory, without a candidate. Raises `ProblemError`."""
        _ = self.distributions
        self.call("time", samples=1, seed=0, graph=False)

    @cached_property
    def distributions(self) -> tuple[str, ...]:
        """The input distributions, besides the problem's own, that the reference supports."""
        return tuple(self.call("distributions")["distributions"])

    def integer_sets(self, draw: Callable[[], int]) -> tuple[int, ...]:
        """Return the seeds of the integers on which launches that depend on such are judged."""
        return self.integers.seeds(draw)

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """The further inputs for which the reference has definite results, and on which a kernel may differ."""
        return tuple(self.call("remarks")["distributions"])

    @cached_property
    def counted(self) -> Message:
        """The reference's operations and bytes."""
        return self.call("count")

    @cached_property
    def idle(self) -> IdleDevice:
        """Time of an empty call on this device."""

        def measure() -> float:
            return float(self.call("empty")["empty_ms"])

        return IdleDevice(measure(), measure)

    @cached_property
    def properties(self) -> Message | None:
        """Torch's properties of the GPU; None for a CPU."""
        found: Message | None = self._gpu.result()["properties"]
        return found

    def generate_ahead(self, lowering: Lowering) -> None:
        """Let torch's compiler do the part of `generate` in which it measures nothing."""
        self.call("generate_ahead", lowering=lowering.value)

    def generate(self, lowering: Lowering) -> GeneratedCode | str:
        """Return what torch's compiler makes of the reference, or why it makes nothing."""
        answer = self.call("generate", lowering=lowering.value)
        return str(answer["obstacle"]) if answer["obstacle"] else GeneratedCode.model_validate(answer["code"])

    def operator_graph(self, free: FreeSize | None = None) -> OperatorGraph | str:
        """Return the reference's graph of operators, with a size that is free if one is given, or why there is none."""
        answer = self.call("operator_graph", free=None if free is None else [free.name, free.low, free.high])
        return str(answer["obstacle"]) if answer["obstacle"] else OperatorGraph.model_validate(answer["graph"])

    def timer(self, seeds: Iterator[int], graph: bool) -> Callable[[int], Message]:
        """Return a timer of the reference, each chunk on the next seed's inputs."""
        return lambda samples: self.call("time", samples=samples, seed=next(seeds), graph=graph)

    def baseline_timer(self, name: str, seeds: Iterator[int], graph: bool) -> Callable[[int], Message]:
        """Return a timer of the reference as PyTorch runs it by default, or as it was compiled under this name."""
        return lambda samples: self.call("time_baseline", name=name, samples=samples, seed=next(seeds), graph=graph)

    @contextlib.contextmanager
    def holding(self, integers: int) -> Iterator[None]:
        """Draw all inputs with the integers of this seed within the context."""
        self.call("hold_integers", integers=integers)
        self._held = integers
        try:
            yield
        finally:
            self._held = None
            if self.alive:
                self.call("hold_integers", integers=None)

    @contextlib.contextmanager
    def at(self, sizes: Mapping[str, Any]) -> Iterator[None]:
        """Use the same problem at other sizes within the context."""
        self.call("resize", sizes=dict(sizes))
        try:
            yield
        finally:
            if self.alive:
                self.call("resize", sizes=dict(self.problem.sizes))

    def can_move_to(self, problem: TorchProblem) -> bool:
        """Whether the worker can go on with a problem: the same one at any sizes, if torch has not compiled it."""
        same = replace(self.problem, workload=problem.workload, sizes=problem.sizes) == problem
        return same and self.alive and not self._compiled

    def moved_to(self, problem: TorchProblem) -> ReferenceClient:
        """Return a client for the same problem at other sizes, to which the worker goes over from this one."""
        self.call("move", sizes=dict(problem.sizes))
        self._moved = True
        return ReferenceClient(problem, self._worker)

    @property
    def pid(self) -> int:
        """The id of the worker's process."""
        return self._worker.pid

    @property
    def alive(self) -> bool:
        """Whether the worker can take requests."""
        return not self._moved and self._worker.alive

    def close(self) -> None:
        """End the worker and remove its files; no effect when it has moved."""
        if not self._moved:
            self._worker.end()


def _reason(error: str) -> str:
    """Return an error as one line, with the last line of the user's file that it passed through."""
    lines = error.splitlines() or [""]
    places = [line for line in lines[1:] if _PLACE.match(line)]
    told = " ".join(" ".join(line for line in lines if line not in places).split())
    moved = "; leave the device out where inputs are made, they are moved" if any(map(told.count, _NO_GPU)) else ""
    return told + (f" ({' '.join(places[-1].split())})" if places else "") + moved
