"""The worker that runs the reference: weights, expected outputs, the comparison, the baselines' times.

It executes the problem's file and none of the candidate's code. Each handler of `ReferenceWorker` serves the request
of its name; a failure of the reference is returned as its text.
"""

from __future__ import annotations

import itertools
import json
import platform
from functools import cached_property
from pathlib import Path
from typing import Any

from ...core import Status, Tolerance, known_languages
from ..correctness.compare import EXACT, Allowed, compare, dtype_name
from ..correctness.conditioning import amplified_error, forgive
from ..correctness.distributions import (
    DISTRIBUTIONS,
    MAGNITUDES,
    OTHER_STRIDES,
    OTHER_WEIGHTS,
    SPECIAL,
    STRUCTURE,
    change_weights,
    draw,
    is_floating,
    vary_constants,
)
from ..correctness.fp64 import Fp64Comparison, in_fp64, outputs_where_accepted
from ..correctness.inputs import Feed
from ..correctness.reference_checks import require_reference, same_result, same_special_values
from ..correctness.side_effects import SideEffects
from ..correctness.trivial_outputs import TrivialOutput, passing_trivial_outputs
from ..profiling import op_counter, peaks
from ..profiling.event_overhead import event_overhead_ms
from ..profiling.gpu_properties import describe_gpu
from ..timing.clock import Clock
from ..timing.timed_calls import TimedCalls
from ..workers.channel import Channel, Message
from ..workers.modules import ProblemModule, outputs_of
from ..workers.request_loop import Handler, describe, serve_requests
from ..workers.tensor_ipc import Outputs, UnreadableTensor
from .baselines import Baselines

_REQUESTS = (
    "open", "state", "check", "same", "check_timed", "distributions", "remarks", "time", "compile", "time_compiled",
    "overhead", "empty", "count", "ceilings", "properties",
)  # fmt: skip

NARROW_BYTES = 2
"""Results of such dtypes depend on rounding with any inputs, as attention does where two scores are nearly equal."""


def serve(channel: Channel, options: Message) -> None:
    """Serve requests until the channel closes."""
    use_full_precision()
    reference_handlers = ReferenceHandlers(options)
    handlers: dict[str, Handler] = {name: reference_handlers.handler(name) for name in _REQUESTS}
    handlers["resize"] = reference_handlers.resize
    serve_requests(channel, handlers, lambda error: {"error": describe(error)})


class ReferenceHandlers:
    """One problem at the most recent sizes; results for other sizes are kept."""

    def __init__(self, options: Message) -> None:
        self._options = options
        self._known: dict[str, ReferenceWorker] = {}
        self.resize(options["sizes"])

    def resize(self, sizes: Message) -> Message:
        """Serve the problem at these sizes from now on."""
        key = json.dumps(sizes, sort_keys=True)
        if key not in self._known:
            self._known[key] = ReferenceWorker({**self._options, "sizes": sizes})
        self._now = self._known[key]
        return {}

    def handler(self, name: str) -> Handler:
        """Return a handler that serves a request at the current sizes."""
        return lambda **request: getattr(self._now, name)(**request)


class ReferenceWorker:
    """One problem at one workload on one device."""

    def __init__(self, options: Message) -> None:
        self.options = options
        self.device: str = options["device"]
        # JSON has no tuples.
        self.tolerances = {dtype: Tolerance(*pair) for dtype, pair in options["tolerances"].items()}
        self._problem: ProblemModule | None = None
        self._exactness = Fp64Comparison()
        self._model: Any = None
        self._weights: int | None = None
        self._weights_changed = False
        self._captured: int | None = None
        self._inputs: list[Any] = []
        self._drawn: tuple[int, str | None] | None = None
        self._held: list[Any] = []
        self._baselines: Baselines | None = None
        self._changes_inputs = False

    @property
    def problem(self) -> ProblemModule:
        """The problem's module at these sizes."""
        if self._problem is None:
            self._problem = ProblemModule(Path(self.options["problem"]), self.options["sizes"], self.device)
        return self._problem

    @cached_property
    def timed(self) -> TimedCalls:
        """The clock and the inputs of timed calls."""
        return TimedCalls(self.device, self.problem)

    def open(self) -> Message:
        """Run the reference twice; return the machine's description, and the reference's side effects on its inputs."""
        import torch

        self._prepare(0)
        effects = SideEffects(self._inputs)
        outputs = outputs_of(self._model(*self._inputs))
        found = effects.of(outputs)
        self._changes_inputs = bool(found["changed"])
        self._drawn = None
        self._prepare(0)
        torch.manual_seed(1)  # else dropout draws the same again
        require_reference(outputs, outputs_of(self._model(*self._inputs)))
        self._drawn = None
        return {"environment": environment(self.device), **found}

    def _prepare(self, seed: int, distribution: str | None = None) -> None:
        changed = distribution == OTHER_WEIGHTS
        if self._weights != seed or self._weights_changed != changed:
            self._model, self._weights = vary_constants(self.problem.model(seed), seed), seed
            self._weights_changed, self._captured = changed, None
            if changed:
                change_weights(self._model, seed)
        if self._drawn != (seed, distribution) or self._changes_inputs:
            self._inputs, self._drawn = draw(self.problem, seed, distribution), (seed, distribution)

    def state(self, seed: int, path: str, distribution: str | None = None) -> Message:
        """Write the weights drawn from the seed, if there are any; others for the distribution `OTHER_WEIGHTS`."""
        import torch

        self._prepare(seed, distribution)
        if state := self._model.state_dict():
            torch.save(state, path)
        return {}

    def check(
        self,
        seed: int,
        path: str,
        outputs: list[Message],
        distribution: str | None = None,
        precise: bool = False,
        hold: bool = False,
    ) -> Message:
        """Compare the candidate's outputs for this seed with the reference.

        `precise` also compares with fp64, and returns the trivial outputs that would have passed; `hold` keeps a copy
        for `same`.
        """
        self._prepare(seed, distribution)
        inputs = self._inputs
        exact = self._exactness.of(self._model, inputs, distribution) if precise else None
        expected = outputs_of(self._model(*inputs))
        allowed = Allowed(
            self.tolerances,
            self._exactness.rounding(None if distribution == OTHER_STRIDES else distribution),
            unbounded=distribution not in (None, OTHER_STRIDES),
            forgiven=self._forgiven if distribution is not None else None,
        )
        verdict = compare(expected, outputs, Path(path), allowed)
        actual = verdict.pop("actual", [])
        if hold:
            self._held = [tensor.clone() for tensor in actual]
        if (
            actual
            and verdict["status"] != Status.OK
            and (trivial := TrivialOutput.of(actual, expected, inputs)) is not None
        ):
            verdict["message"] = f"returned {trivial}: {verdict['message']}"
        if verdict["status"] == Status.OK and precise:
            verdict |= self._exactness.compare(exact, expected, actual)
            verdict["trivial_outputs"] = passing_trivial_outputs(expected, inputs, allowed)
            trivial = TrivialOutput.of(actual, expected, inputs)
            verdict["trivial_output"] = str(trivial) if trivial else None
        return verdict

    def _forgiven(self, number: int, expected: Any, actual: Any) -> Any:
        """Return an output with the expected values in rows where rounding decides the result, if it is near them."""
        assert self._drawn is not None
        narrow = expected.is_floating_point() and expected.element_size() <= NARROW_BYTES
        if not narrow and (self._drawn[1] != STRUCTURE or not expected.is_floating_point()):
            return actual
        relative = self.tolerances.get(dtype_name(expected), EXACT).relative
        try:
            return forgive(expected, actual, amplified_error(in_fp64(self._model), self._inputs, number, relative))
        except (RuntimeError, MemoryError):  # too little memory for another run in fp64
            return actual

    def same(self, path: str, outputs: list[Message]) -> Message:
        """Return whether outputs are bitwise equal to the held ones."""
        import torch

        reader = Outputs(Path(path))
        try:
            again = [reader.next(got, held) for got, held in zip(outputs, self._held, strict=True)]
        except (UnreadableTensor, ValueError):
            return {"same": False}
        return {"same": all(torch.equal(_bits(a), _bits(b)) for a, b in zip(again, self._held, strict=True))}

    def check_timed(self, weights: int, seed: int, calls: int, path: str, outputs: list[Message]) -> Message:
        """Compare the outputs of a timed call, given its weights, the seed of its inputs, and its index, from 1."""
        if self._weights != weights or self._weights_changed:
            self._prepare(weights)
        inputs = Feed(self.problem).at(seed, calls)
        expected = outputs_of(self._model(*inputs))
        allowed = Allowed(self.tolerances, self._exactness.rounding(None))
        verdict = compare(expected, outputs, Path(path), allowed)
        verdict.pop("actual", None)
        return verdict

    def distributions(self) -> Message:
        """Return the distributions, and other changes, with which the reference itself is finite and close to fp64."""
        self._prepare(0)
        fit: list[str] = []
        if any(is_floating(value) for value in self._inputs):
            fit = [name for name in DISTRIBUTIONS if self._copes(name)]
            fit += itertools.islice(filter(self._copes, MAGNITUDES), 1)
        if any(parameter.is_floating_point() for parameter in self._model.parameters()) and self._copes(OTHER_WEIGHTS):
            fit.append(OTHER_WEIGHTS)
        self._drawn = None
        return {"distributions": fit}

    def _copes(self, distribution: str) -> bool:
        self._prepare(0, distribution)
        return self._exactness.copes(self._model, self._inputs, distribution, self.tolerances)

    def _accepts_other_strides(self) -> bool:
        self._prepare(0)
        before, strides = outputs_where_accepted(self._model, self._inputs), [_strides(one) for one in self._inputs]
        self._prepare(0, OTHER_STRIDES)
        if before is None or [_strides(one) for one in self._inputs] == strides:
            return False
        after = outputs_where_accepted(self._model, self._inputs)
        return after is not None and same_result(before, after)

    def _is_definite_on_special_values(self) -> bool:
        self._prepare(0)
        if not any(is_floating(value) for value in self._inputs):
            return False
        outputs = []
        for _ in range(2):
            self._drawn = None  # it may write to its inputs
            self._prepare(0, SPECIAL)
            outputs.append(outputs_where_accepted(self._model, self._inputs))
        first, again = outputs
        return first is not None and again is not None and same_special_values(first, again)

    def remarks(self) -> Message:
        """Return which of the inputs that a kernel may treat otherwise the reference accepts, with definite results."""
        fit = [SPECIAL] if self._is_definite_on_special_values() else []
        fit += [OTHER_STRIDES] if self._accepts_other_strides() else []
        self._drawn = None
        return {"distributions": fit}

    def time(self, samples: int, seed: int, graph: bool) -> Message:
        """Time the reference on inputs drawn from the seed."""
        self._clear()
        if self._captured != self._weights:  # a graph contains the weights' addresses
            self.timed.clock.forget()
            self._captured = self._weights
        return self.timed.time(0, self._model, seed, samples, graph)

    def compile(self, name: str, cache: str | None) -> Message:
        """Compile the reference in another way; the response's `error` gives the reason of a failure."""
        if self._baselines is None:
            self._baselines = Baselines(self.timed.clock, Path(cache) if cache else None)
        assert self._weights is not None
        self._prepare(self._weights)
        return self._baselines.compile(name, self._model, self._inputs)

    def time_compiled(self, name: str, samples: int, seed: int, graph: bool) -> Message:
        """Time the reference compiled under this name."""
        assert self._baselines is not None
        self.timed.clock.graph = graph
        return self._baselines.time(name, self.timed.feed(seed).next, samples)

    def overhead(self, graph: bool) -> Message:
        """Measure the overhead of events; this process cannot be used for anything else afterwards."""
        return {"overhead_ms": event_overhead_ms(Clock(self.device, graph))}

    def _clear(self) -> None:
        """Free the memory of checking, as the candidate's worker does."""
        if self._held or self._drawn is not None:
            self._held, self._inputs, self._drawn = [], [], None
            if self.device.startswith("cuda"):
                import torch

                torch.cuda.empty_cache()

    def empty(self) -> Message:
        """Measure the wall ms of an empty call beyond its time by events."""
        return {"empty_ms": self.timed.clock.empty_ms()}

    def count(self) -> Message:
        """Count the reference's operations and bytes."""
        self._prepare(0)
        return op_counter.count(self._model, self._inputs)

    def ceilings(self) -> Message:
        """Measure the device's peak rates."""
        return peaks.measure(self.device)

    def properties(self) -> Message:
        """Return torch's properties of the GPU; empty for a CPU."""
        return {"properties": describe_gpu(self.device) if self.device.startswith("cuda") else None}


def _strides(value: Any) -> Any:
    import torch

    return value.stride() if isinstance(value, torch.Tensor) and value.layout == torch.strided else None


def _bits(tensor: Any) -> Any:
    """Return the bytes, so that NaN equals itself and zeros have a sign."""
    import torch

    return tensor.contiguous().reshape(-1).view(torch.uint8)


def use_full_precision() -> None:
    """Make the reference compute fp32 in fp32: by default torch lets cuDNN use TF32 for convolutions.

    Tolerances are those of fp32, so expected values and baseline must be too.
    """
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def environment(device: str) -> dict[str, str]:
    """Return device, versions and threads as texts for the record."""
    import torch

    found = {
        "device": device_name(device),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": str(torch.get_num_threads()),
    }
    from importlib.metadata import PackageNotFoundError, version

    for package in (one for language in known_languages() for one in language.packages):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    if device.startswith("cuda"):
        found["cuda"] = torch.version.cuda or ""
        found["tf32"] = "off"
        found["uuid"] = str(torch.cuda.get_device_properties(device).uuid)
    return found


def device_name(device: str) -> str:
    """Return 'NVIDIA H200', or the processor's name and the number of its available cores."""
    import torch

    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    cores = torch.get_num_threads()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            return f"{line.split(':', 1)[1].strip()}, {cores} cores"
    return f"{platform.machine()}, {cores} cores"
