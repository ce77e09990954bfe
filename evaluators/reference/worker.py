"""The worker that runs the reference: weights, expected outputs, the comparison, the baselines' times.

It executes the problem's file and none of the candidate's code. Each handler of `ReferenceWorker` serves the request
of its name; a failure of the reference is returned as its text.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import platform
from functools import cached_property
from pathlib import Path
from typing import Any

from ...core import Status, Tolerance, known_languages
from ..correctness.compare import EXACT, Allowed, compare, dtype_name
from ..correctness.conditioning import amplified_error, forgive, is_steady, settled
from ..correctness.digest import HeldOutput
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
from ..correctness.fp64 import Fp64Comparison, copied, in_fp64, outputs_where_accepted
from ..correctness.inputs import Feed
from ..correctness.reference_checks import require_reference, same_result, same_special_values
from ..correctness.side_effects import SideEffects, WrittenWeights
from ..correctness.trivial_outputs import TrivialOutput, passing_trivial_outputs
from ..languages.helpers import keep_helpers
from ..profiling import op_counter, peaks
from ..profiling.event_overhead import event_overhead_ms
from ..profiling.gpu_properties import describe_gpu
from ..replay.values import weights_of
from ..timing.clock import Clock
from ..timing.scheduling import Scheduling
from ..timing.timed_calls import TimedCalls
from ..workers.channel import Channel, Message
from ..workers.memory import is_large, release_cache
from ..workers.modules import ProblemModule, outputs_of
from ..workers.request_loop import Handler, describe, serve_requests
from ..workers.tensor_ipc import Outputs, StateBuffer, UnreadableTensor
from .arithmetic import STRICT, Arithmetic
from .baselines import Baselines
from .replays import ReplayRequests

_REQUESTS = (
    "open", "state", "check", "same", "check_timed", "distributions", "remarks", "time", "compile", "time_baseline",
    "overhead", "empty", "count", "ceilings", "properties", "release",
)  # fmt: skip

NARROW_BYTES = 2
"""Results of such dtypes depend on rounding with any inputs, as attention does where two scores are nearly equal."""


def serve(channel: Channel, options: Message) -> None:
    """Serve requests until the channel closes."""
    if "helpers" in options:
        keep_helpers(Path(options["helpers"]))
    reference_handlers = ReferenceHandlers(options, Arithmetic.of(options))
    handlers: dict[str, Handler] = {
        name: reference_handlers.handler(name) for name in (*_REQUESTS, *ReplayRequests.REQUESTS)
    }
    handlers["resize"] = reference_handlers.resize
    serve_requests(channel, handlers, lambda error: {"error": describe(error)}, options["device"])


class ReferenceHandlers:
    """One problem at the most recent sizes; results for other sizes are kept."""

    def __init__(self, options: Message, arithmetic: Arithmetic) -> None:
        self._options = options
        self._arithmetic = arithmetic
        self._known: dict[str, ReferenceWorker] = {}
        self._now: ReferenceWorker | None = None
        self.resize(options["sizes"])

    def resize(self, sizes: Message) -> Message:
        """Serve the problem at these sizes from now on."""
        key = json.dumps(sizes, sort_keys=True)
        if self._now is not None:
            self._now.release()
        if key not in self._known:
            self._known[key] = ReferenceWorker({**self._options, "sizes": sizes}, self._arithmetic)
        self._now = self._known[key]
        return {}

    def handler(self, name: str) -> Handler:
        """Return a handler that serves a request at the current sizes."""

        def serve_one(**request: Any) -> Message:
            self._arithmetic.main.set()  # a problem's file may have set the switches
            assert self._now is not None
            owner = self._now.replays if name in ReplayRequests.REQUESTS else self._now
            answer: Message = getattr(owner, name)(**request)
            return answer

        return serve_one


class ReferenceWorker:
    """One problem at one workload on one device."""

    def __init__(self, options: Message, arithmetic: Arithmetic) -> None:
        self.options = options
        self.device: str = options["device"]
        self.arithmetic = arithmetic
        # JSON has no tuples.
        self.tolerances = {dtype: Tolerance(*pair) for dtype, pair in options["tolerances"].items()}
        self._problem: ProblemModule | None = None
        self.exactness = Fp64Comparison()
        self.model: Any = None
        self.weights: int | None = None
        self._weights_changed = False
        self._captured: int | None = None
        self.inputs: list[Any] = []
        self._drawn: tuple[int, str | None] | None = None
        self._held: list[Any] = []
        self._state: StateBuffer | None = None
        self._baselines: Baselines | None = None
        self.changes_inputs = False
        self.written_weights: frozenset[str] = frozenset()
        self.scheduling = Scheduling()

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

        self.prepare(0)
        effects, written = SideEffects(self.inputs), WrittenWeights(weights_of(self.model))
        outputs = outputs_of(self.model(*self.inputs))
        found = {**effects.of(outputs), "weights": written.names()}
        self.written_weights = frozenset(found["weights"])
        del effects  # it keeps the inputs
        self.changes_inputs = bool(found["changed"])
        same = self.arithmetic.main == self.arithmetic.default or self._defaults_make_no_difference(outputs)
        self.prepare(0)
        torch.manual_seed(1)  # else dropout draws the same again
        require_reference(outputs, outputs_of(self.model(*self.inputs)))
        del outputs
        self.forget_inputs()
        self.release()
        described = environment(self.device)
        if self.device.startswith("cuda"):
            described["tf32"] = str(self.arithmetic.main)
        arithmetic = {"precision": self.arithmetic.precision.value, "default_is_reference": same}
        return {"environment": described, "arithmetic": arithmetic, **found}

    def _defaults_make_no_difference(self, expected: list[Any]) -> bool:
        """Return whether PyTorch's defaults change no operator of the reference, and no bit of its result."""
        self.prepare(0)
        default = self.arithmetic.default
        with self.arithmetic.switched(default):
            outputs, seen = op_counter.observe(lambda: outputs_of(self.model(*self.inputs)))
        if any(default.changes(operator["name"], operator["family"]) for operator in seen):
            return False
        return [HeldOutput.of(one) for one in outputs] == [HeldOutput.of(one) for one in expected]

    def prepare(self, seed: int, distribution: str | None = None) -> None:
        """Draw the weights and the inputs of a seed, unless they are the current ones."""
        self.prepare_model(seed, distribution)
        if self._drawn != (seed, distribution) or self.changes_inputs:
            self.forget_inputs()  # freed before others are drawn
            self.inputs, self._drawn = draw(self.problem, seed, distribution), (seed, distribution)

    def prepare_model(self, seed: int, distribution: str | None = None) -> None:
        """Draw the weights of a seed, unless they are the current ones."""
        changed = distribution == OTHER_WEIGHTS
        if self.weights != seed or self._weights_changed != changed:
            self.model, self.weights = vary_constants(self.problem.model(seed), seed), seed
            self._weights_changed, self._captured = changed, None
            if changed:
                change_weights(self.model, seed)

    def forget_weights(self) -> None:
        """Draw the weights again before they are used: something wrote to them."""
        self.weights = None

    def forget_inputs(self) -> None:
        """Draw the inputs again before they are used."""
        self.inputs, self._drawn = [], None

    def release(self) -> Message:
        """Free what can be drawn again, where it is large: the candidate may need the memory next."""
        if is_large(self.inputs):
            self.forget_inputs()
        if "timed" in vars(self):
            self.timed.release()
        release_cache(self.device)
        return {}

    def release_timed(self) -> None:
        """Free the inputs of timed calls, where they are large; not on a CPU, where the next chunk continues them."""
        if self.device != "cpu" and "timed" in vars(self):
            self.timed.release()

    def state(self, seed: int, path: str, share: bool, distribution: str | None = None) -> Message:
        """Pass on the weights drawn from the seed, if there are any: in device memory if requested, else in a file.

        `shared` in the response describes that memory; None where it cannot be shared. Other weights for the
        distribution `OTHER_WEIGHTS`.
        """
        import torch

        self.prepare_model(seed, distribution)
        state = self.model.state_dict()
        if share and state:
            with contextlib.suppress(RuntimeError):
                self._state = self._state or StateBuffer(self.device)
                return {"shared": self._state.publish(state)}
        if state:
            torch.save(state, path)
        return {"shared": None}

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

        `precise` also compares with fp64, and returns the trivial outputs that would have passed; `hold` remembers
        the candidate's for `same`.
        """
        self.prepare(seed, distribution)
        inputs = self.inputs
        fp32 = self.in_fp32(inputs, distribution, precise)
        expected = outputs_of(self.model(*inputs))
        self.exactness.learn(fp32, expected, distribution)
        allowed = self.allowed(distribution)
        verdict = compare(expected, outputs, Path(path), allowed)
        actual = verdict.pop("actual", [])
        if hold:
            self._held = [HeldOutput.of(tensor) for tensor in actual]
        if (
            actual
            and verdict["status"] != Status.OK
            and (trivial := TrivialOutput.of(actual, expected, inputs)) is not None
        ):
            verdict["message"] = f"returned {trivial}: {verdict['message']}"
        if verdict["status"] == Status.OK and precise:
            self.prepare(seed, distribution)  # the reference may have changed them
            verdict |= self.precise_verdict(expected, actual, fp32, allowed)
        del inputs, expected, actual
        self.release()
        return verdict

    def precise_verdict(
        self, expected: list[Any], actual: list[Any], fp32: list[Any] | None, allowed: Allowed
    ) -> Message:
        """Compare a correct result with fp64, and with trivial outputs."""
        verdict = self.exactness.compare(self.model, self.inputs, expected, actual, fp32)
        trivial = TrivialOutput.of(actual, expected, self.inputs)
        return {
            **verdict,
            "trivial_outputs": passing_trivial_outputs(expected, self.inputs, allowed),
            "trivial_output": str(trivial) if trivial else None,
        }

    def allowed(self, distribution: str | None = None) -> Allowed:
        """Return the allowed difference on such inputs."""
        return Allowed(
            self.tolerances,
            self.exactness.slack(None if distribution == OTHER_STRIDES else distribution),
            unbounded=distribution not in (None, OTHER_STRIDES),
            forgiven=self._forgiven if distribution is not None else None,
        )

    def in_fp32(self, inputs: list[Any], distribution: str | None, precise: bool = False) -> list[Any] | None:
        """Return the reference's outputs in fp32, where it computes in less and its error is to be learned.

        On inputs of other distributions it is learned from each seed: the largest of heavy tails varies.
        """
        known = distribution is None and self.exactness.knows(distribution)
        if self.arithmetic.main == STRICT or (known and not precise):
            return None
        with self.arithmetic.switched(STRICT):
            return outputs_of(self.model(*copied(inputs)))

    def _forgiven(self, number: int, expected: Any, actual: Any) -> Any:
        """Return an output with the expected values where rounding decides the result."""
        assert self._drawn is not None
        if self._drawn[1] in MAGNITUDES and expected.is_floating_point():
            limit = min(self.tolerances.get(dtype_name(expected), EXACT))
            reference = lambda given: outputs_of(self.model(*given))[number]  # noqa: E731
            return settled(reference, self.inputs, expected, actual, limit)
        narrow = expected.is_floating_point() and expected.element_size() <= NARROW_BYTES
        if not narrow and (self._drawn[1] != STRUCTURE or not expected.is_floating_point()):
            return actual
        relative = self.tolerances.get(dtype_name(expected), EXACT).relative
        try:
            return forgive(expected, actual, amplified_error(in_fp64(self.model), self.inputs, number, relative))
        except (RuntimeError, MemoryError):  # too little memory for another run in fp64
            return actual

    def same(self, path: str, outputs: list[Message]) -> Message:
        """Return whether outputs are bitwise equal to the held ones."""
        reader = Outputs(Path(path))
        try:
            again = [reader.next(got, held.like) for got, held in zip(outputs, self._held, strict=True)]
        except (UnreadableTensor, ValueError):
            return {"same": False}
        return {"same": all(held == HeldOutput.of(tensor) for tensor, held in zip(again, self._held, strict=True))}

    def check_timed(self, weights: int, seed: int, calls: int, path: str, outputs: list[Message]) -> Message:
        """Compare the outputs of a timed call, given its weights, the seed of its inputs, and its index, from 1."""
        self.prepare_model(weights)
        self.release_timed()
        inputs = Feed(self.problem).at(seed, calls)
        fp32 = self.in_fp32(inputs, None)
        expected = outputs_of(self.model(*inputs))
        self.exactness.learn(fp32, expected, None)
        verdict = compare(expected, outputs, Path(path), self.allowed())
        verdict.pop("actual", None)
        return verdict

    def distributions(self) -> Message:
        """Return the distributions, and other changes, with which the reference itself is finite and close to fp64."""
        self.prepare(0)
        fit: list[str] = []
        if any(is_floating(value) for value in self.inputs):
            fit = [name for name in DISTRIBUTIONS if self._copes(name)]
            fit += itertools.islice(filter(self._copes, MAGNITUDES), 1)
        if any(parameter.is_floating_point() for parameter in self.model.parameters()) and self._copes(OTHER_WEIGHTS):
            fit.append(OTHER_WEIGHTS)
        self.forget_inputs()
        self.release()
        return {"distributions": fit}

    def _copes(self, distribution: str) -> bool:
        self.prepare(0, distribution)
        with self.arithmetic.switched(STRICT):
            if not self.exactness.copes(self.model, self.inputs, distribution, self.tolerances):
                return False
            if distribution not in MAGNITUDES:
                return True
            expected = self._floating(*copied(self.inputs))
            allowed = [min(self.tolerances.get(dtype_name(one), EXACT)) for one in expected]
            return is_steady(self._floating, self.inputs, expected, allowed)

    def _floating(self, *inputs: Any) -> list[Any]:
        return [one for one in outputs_of(self.model(*inputs)) if one.is_floating_point()]

    def _accepts_other_strides(self) -> bool:
        self.prepare(0)
        before, strides = outputs_where_accepted(self.model, self.inputs), [_strides(one) for one in self.inputs]
        self.prepare(0, OTHER_STRIDES)
        if before is None or [_strides(one) for one in self.inputs] == strides:
            return False
        after = outputs_where_accepted(self.model, self.inputs)
        return after is not None and same_result(before, after)

    def _is_definite_on_special_values(self) -> bool:
        self.prepare(0)
        if not any(is_floating(value) for value in self.inputs):
            return False
        outputs = []
        for _ in range(2):
            self.forget_inputs()  # it may write to them
            self.prepare(0, SPECIAL)
            outputs.append(outputs_where_accepted(self.model, self.inputs))
        first, again = outputs
        return first is not None and again is not None and same_special_values(first, again)

    def remarks(self) -> Message:
        """Return which of the inputs that a kernel may treat otherwise the reference accepts, with definite results."""
        fit = [SPECIAL] if self._is_definite_on_special_values() else []
        fit += [OTHER_STRIDES] if self._accepts_other_strides() else []
        self.forget_inputs()
        self.release()
        return {"distributions": fit}

    def time(self, samples: int, seed: int, graph: bool) -> Message:
        """Time the reference on inputs drawn from the seed."""
        self.clear()
        if self._captured != self.weights:  # a graph contains the weights' addresses
            self.timed.clock.forget()
            self._captured = self.weights
        timed = self.timed.time(0, self.model, seed, samples, graph)
        self.timed.last = None  # nobody compares it
        return timed

    def compile(self, name: str, cache: str | None) -> Message:
        """Compile the reference in another way; the response's `error` gives the reason of a failure."""
        assert self.weights is not None
        self.prepare(self.weights)
        compiled = self._other_ways(cache).compile(name, self.model, self.inputs)
        self.release()
        return compiled

    def time_baseline(self, name: str, samples: int, seed: int, graph: bool) -> Message:
        """Time the reference as PyTorch runs it by default, or as it was compiled under this name."""
        self.timed.clock.graph = graph
        return self._other_ways().time(name, self.model, self.timed.feed(seed).next, samples)

    def _other_ways(self, cache: str | None = None) -> Baselines:
        if self._baselines is None:
            self._baselines = Baselines(self.timed.clock, Path(cache) if cache else None, self.arithmetic)
        return self._baselines

    def overhead(self, graph: bool) -> Message:
        """Measure the overhead of events; this process cannot be used for anything else afterwards."""
        return {"overhead_ms": event_overhead_ms(Clock(self.device, graph))}

    @cached_property
    def replays(self) -> ReplayRequests:
        """The requests about launch plans."""
        return ReplayRequests(self)

    def clear(self) -> None:
        """Free the memory of checking, as the candidate's worker does."""
        if self._held or self._drawn is not None:
            self._held = []
            self.forget_inputs()
            release_cache(self.device)

    def empty(self) -> Message:
        """Measure the wall ms of an empty call beyond its time by events."""
        return {"empty_ms": self.timed.clock.empty_ms()}

    def count(self) -> Message:
        """Count the reference's operations and bytes."""
        self.prepare(0)
        counted = op_counter.count(self.model, self.inputs)
        self.release()
        return counted

    def ceilings(self) -> Message:
        """Measure the device's peak rates."""
        return peaks.measure(self.device)

    def properties(self) -> Message:
        """Return torch's properties of the GPU; empty for a CPU."""
        return {"properties": describe_gpu(self.device) if self.device.startswith("cuda") else None}


def _strides(value: Any) -> Any:
    import torch

    return value.stride() if isinstance(value, torch.Tensor) and value.layout == torch.strided else None


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
