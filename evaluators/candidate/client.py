"""The client of a candidate's worker: loads a kernel, checks it, times it, replaces a worker that died."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...core import Config, Correctness, Kernel, Status
from ...core.source_text import without_separators
from ..correctness.start_errors import DRAWS
from ..guards.torch_share import Operator
from ..reference.client import ReferenceClient
from ..replay.saved import read_plan
from ..replay.values import UnplannableCallError
from ..settings import Limits
from ..timing.hidden_work import HiddenWorkDetector, IdleDevice, hidden_work
from ..workers.channel import Message
from ..workers.client import Worker
from .exchange import ExchangingProcess
from .responses import (
    HostResponse,
    LaunchesResponse,
    LoadResponse,
    OperatorsResponse,
    ProfileResponse,
    RecordResponse,
    Response,
    RunResponse,
    TimeResponse,
)
from .verified import (
    CandidateError,
    CheckPlan,
    Comparisons,
    RecordedPlan,
    VerifiedConfig,
    distribution_label,
    rejected,
    trivial_output_in,
)


class CandidateClient(ExchangingProcess):
    """One kernel, with many configs one after the other in the same worker.

    A config that crashes, hangs or fails at run time costs a new worker and nothing else.
    """

    def __init__(self, kernel: Kernel, limits: Limits, new_worker: Callable[[], Worker], share: bool = False) -> None:
        super().__init__(limits, new_worker, share)
        self.kernel = kernel
        self._serial = 0
        self._ahead: tuple[Worker | None, Config | None, tuple[int, float] | CandidateError | None] = None, None, None

    def check(
        self,
        reference_client: ReferenceClient,
        config: Config,
        plan: CheckPlan,
        keep: bool = False,
        ahead_s: float | None = None,
    ) -> VerifiedConfig:
        """Compile the kernel at a config and compare it with the reference according to the plan.

        Raises `CandidateError`.

        `keep` leaves the previously checked configs loaded, for interleaved timing. `ahead_s` is the time that
        compiling took before; without it, it is the first call's time beyond a later one's.
        """
        serial, load_s = self._loaded_ahead(config, keep) or self._load(config, keep)
        correctness, warm_s = self._compare(reference_client, serial, plan, self._limits.compile_s - load_s)
        compile_s = load_s + (warm_s if ahead_s is None else ahead_s)
        return VerifiedConfig(config, serial, correctness, compile_s, weights=plan.weights)

    def check_further(self, reference_client: ReferenceClient, checked: VerifiedConfig, plan: CheckPlan) -> None:
        """Compare a checked config according to another plan. Raises `CandidateError`."""
        checked.correctness, _ = self._compare(reference_client, checked.serial, plan, self._limits.call_s)
        checked.weights = plan.weights

    def _compare(
        self, reference_client: ReferenceClient, serial: int, plan: CheckPlan, first_limit_s: float
    ) -> tuple[Correctness, float]:
        """Return the correctness of a loaded config, and the first call's seconds beyond a later one's."""
        comparisons = Comparisons(plan.seeds)
        first_s = later_s = 0.0
        for number, seed in enumerate(plan.seeds):
            allowed = self._limits.call_s if number else max(1.0, first_limit_s)
            hold, precise = number == 0 and plan.thorough, number == 0 and plan.precise
            ran, verdict = self.compared(reference_client, serial, seed, allowed, hold=hold, precise=precise)
            first_s, later_s = (ran.seconds, 0.0) if number == 0 else (first_s, ran.seconds)
            self._require_ok(verdict, comparisons)
        if plan.thorough and not reference_client.effects["returned"]:
            self._check_held(reference_client)
        for distribution in plan.distributions:
            _, verdict = self.compared(
                reference_client, serial, plan.seeds[0], self._limits.call_s, distribution=distribution
            )
            verdict["message"] = f"{distribution_label(distribution)}: {verdict['message']}"
            self._require_ok(verdict, comparisons, distribution)
        if plan.thorough:
            comparisons.deterministic = self._is_deterministic(reference_client, serial, plan.seeds[0], comparisons)
        correctness = comparisons.summary(passed=True)
        assert correctness is not None
        return correctness, max(0.0, first_s - later_s)

    def timer(
        self, checked: VerifiedConfig, seeds: Iterator[int], graph: bool, idle: IdleDevice
    ) -> Callable[[int], Message]:
        """Return a timer of a checked config, each chunk on the next seed's inputs; it raises `CandidateError`.

        A chunk in which the device was busy beyond the events is taken again while others use the device (`idle`).
        """

        def take(samples: int) -> Message:
            suspicion = HiddenWorkDetector(idle)
            try:
                while True:
                    seed = next(seeds)
                    request = {"serial": checked.serial, "samples": samples, "seed": seed, "graph": graph}
                    timed = self.ask(TimeResponse, self._limits.call_s, "time", **request)
                    hidden = hidden_work(timed.samples_ms, timed.host_ms, idle.empty_ms)
                    if hidden is None:
                        break
                    if (proven := suspicion.confirmed(hidden)) is not None:
                        raise self.rejected("hidden-work", "while it was timed", proven)
            except CandidateError as failure:
                failure.config = checked.config
                raise
            checked.timed[:] = [(seed, timed.calls)]
            return timed.model_dump(exclude={"violations", "calls"})

        return take

    def recheck(self, reference_client: ReferenceClient, checked: VerifiedConfig) -> None:
        """Compare the last timed call's outputs: a kernel could skip work once a clock runs.

        Raises `CandidateError`.
        """
        ((seed, calls),) = checked.timed
        path = self.outputs
        answer = self.hand_over("timed_outputs", serial=checked.serial)
        verdict = reference_client.verdict(
            "check_timed",
            weights=checked.weights,
            drawn=[[seed, None, calls]],
            path=str(path),
            outputs=[answer.described()],
        )
        if self.cannot_share(verdict):
            self.recheck(reference_client, checked)
        elif verdict["status"] != Status.OK:
            why = f"a timed call returned something else than the reference: {verdict['message']}"
            raise self.rejected("wrong-when-timed", "while it was timed", why)
        elif (trivial := trivial_output_in(verdict)) is not None:
            self.worker.end()
            raise rejected(trivial)

    def launches_ms(self, checked: VerifiedConfig) -> dict[str, float]:
        """Return the time of each kernel's launches in a call, by its name. Raises `CandidateError`.

        The fastest of several counts, since other processes only ever add time.
        """
        request = {"serial": checked.serial, "seed": checked.correctness.seeds[0]}
        found = self.ask(LaunchesResponse, self._limits.call_s, "launches", **request)
        return {name: time for name, samples in found.samples_ms.items() if (time := min(samples, default=0.0)) > 0}

    def operators(self, checked: VerifiedConfig) -> OperatorsResponse:
        """Return one call's torch operators and launches of own kernels. Raises `CandidateError`."""
        seed = checked.correctness.seeds[0]
        return self.ask(OperatorsResponse, self._limits.call_s, "operators", serial=checked.serial, seed=seed)

    def draw_host(self, checked: VerifiedConfig, integers: int | None) -> None:
        """Draw the inputs of the calls that `host_ms` and `repeat_ms` make, perhaps with the integers of another seed.

        Raises `CandidateError`, as they do.
        """
        request = {"serial": checked.serial, "seed": checked.correctness.seeds[0], "integers": integers}
        self.ask(Response, self._limits.call_s, "draw_host", **request)

    def host_ms(self, integers: int | None = None) -> float:
        """Return the host time of a call in ms; on a CPU without its launches and torch's operators.

        `integers` is the seed of others than those that were drawn.
        """
        return self.ask(HostResponse, self._limits.call_s, "host", integers=integers).host_ms

    def repeat_ms(self, calls: int) -> float:
        """Make this many calls; return the milliseconds until all have ended."""
        start = time.perf_counter()
        self.ask(Response, self._limits.call_s, "repeat", calls=calls)
        return (time.perf_counter() - start) * 1e3

    def record(
        self, reference_client: ReferenceClient, checked: VerifiedConfig, seed: int, integers: int | None = None
    ) -> RecordedPlan | str:
        """Return the launch plan of a call with the weights and inputs of this seed, or why there is none.

        The inputs have the integers of another seed, if it is given.

        Raises `CandidateError` where the call fails, and where calls at the same sizes launch differently.
        """
        self.hand_weights(reference_client, checked.serial, seed, self._limits.call_s)
        plan = self.worker.folder / "plan.json"
        request = {"serial": checked.serial, "seed": seed, "integers": integers}
        paths = {"plan": str(plan), "constants": str(self.outputs)}
        answer = self.ask(RecordResponse, self._limits.compile_s, "record", **request, **paths)
        if answer.reason is not None:
            return answer.reason
        if answer.changing:
            raise self.rejected("changing-plan", "forward", "calls at the same sizes launch different kernels")
        try:
            recorded = read_plan(plan)
        except UnplannableCallError as reason:
            return str(reason)
        except (OSError, ValueError):
            raise CandidateError(Status.CRASHED, "the process sent no proper plan") from None
        if any(code.kind == "c" for part in recorded.parts for code in part.codes.values()):
            return "C, which may be anybody's, where the plan must have the IR that it was generated from"
        return RecordedPlan(recorded, answer.described(), self.outputs, integers, answer.reads)

    def profile(self, checked: VerifiedConfig, own: Sequence[str], code: bool) -> ProfileResponse:
        """Return what runs on the device in one call; `own` are the kernel names that the source defines, and `code`
        says whether their machine code is read."""
        asked = {"serial": checked.serial, "seed": checked.correctness.seeds[0], "own": list(own), "code": code}
        return self.ask(ProfileResponse, self._limits.call_s, "profile", **asked)

    def check_at(self, reference_client: ReferenceClient, config: Config, sizes: dict[str, Any], seed: int) -> None:
        """Compare once at other sizes; unloads all configs. Raises `CandidateError`."""
        try:
            self.ask(Response, self._limits.call_s, "resize", sizes=sizes)
            with reference_client.at(sizes):
                serial, _ = self._load(config, keep=False)
                _, verdict = self.compared(reference_client, serial, seed, self._limits.compile_s)
                self._require_ok(verdict, Comparisons((seed,)))
            self.ask(Response, self._limits.call_s, "resize", sizes=dict(reference_client.problem.sizes))
        except CandidateError:
            self.worker.end()  # the next config gets a worker at the problem's own sizes
            raise

    def release(self) -> None:
        """Let the worker free what it can draw again, where that is large. Raises `CandidateError`."""
        self.ask(Response, self._limits.call_s, "release")

    def run_start(
        self, reference_client: ReferenceClient, distribution: str | None, learn: bool, seed: int | None
    ) -> list[int]:
        """Run this kernel, a user's function as it stands; return the inputs that it writes to.

        Lets the reference worker `learn` its errors, on inputs of a seed as well. Raises `CandidateError`.
        """
        serial, _ = self._load(Config(), keep=False)
        changed: list[int] = []
        written = reference_client.effects["changed"]
        seeds = [*range(1, (DRAWS if learn else 1) + 1), *([] if seed is None else [seed])]
        for seed in seeds:
            self.hand_weights(reference_client, serial, seed, self._limits.call_s, distribution)
            ran = self.hand_over(
                "run", RunResponse, self._limits.compile_s, serial=serial, seed=seed, distribution=distribution,
                written=written,
            )  # fmt: skip
            changed += ran.changed
            request = {"seed": seed, "path": str(self.outputs), "distribution": distribution, "written": written}
            if learn:
                reference_client.call("learn_start", outputs=ran.described(), **request)
        return changed

    def count_start(self, reference_client: ReferenceClient, seed: int, integers: int | None) -> list[Operator]:
        """Return the torch operators of a call of this kernel, a user's function as it stands, on inputs of a seed.

        They have the integers of another seed, if it is given. Raises `CandidateError`.
        """
        serial, _ = self._load(Config(), keep=False)
        self.hand_weights(reference_client, serial, seed, self._limits.call_s)
        request = {"serial": serial, "seed": seed, "integers": integers}
        return self.ask(OperatorsResponse, self._limits.compile_s, "operators", **request).operators

    def difference(self, reference_client: ReferenceClient, checked: VerifiedConfig, distribution: str) -> str:
        """Return how the result differs from the reference's for such inputs; empty if it does not.

        Raises `CandidateError` only for what is not a verdict.

        The config may be unloaded afterwards.
        """
        seed, seconds = checked.correctness.seeds[0], self._limits.compile_s  # it may be compiled for other strides
        try:
            _, verdict = self.compared(reference_client, checked.serial, seed, seconds, distribution=distribution)
        except CandidateError as failure:
            if failure.status is Status.NOT_MEASURED:
                raise
            return failure.message
        return "" if verdict["status"] == Status.OK else str(verdict["message"])

    def load_ahead(self, config: Config) -> None:
        """Load a config before the device is locked: code of others runs then, and may not end. `check` raises what
        fails.
        """
        try:
            loaded: tuple[int, float] | CandidateError = self._load(config, keep=False)
        except CandidateError as failure:
            loaded = failure
        self._ahead = self._worker, config, loaded

    def _loaded_ahead(self, config: Config, keep: bool) -> tuple[int, float] | None:
        """Return what `load_ahead` did, once, where it still holds."""
        worker, ahead, loaded = self._ahead
        self._ahead = None, None, None
        if worker is not self._worker or ahead != config or keep:
            return None
        if isinstance(loaded, CandidateError):
            raise loaded
        return loaded if self.alive else None

    def _load(self, config: Config, keep: bool) -> tuple[int, float]:
        """Return the serial number of a config that was loaded, and the seconds that this took."""
        start = time.perf_counter()
        self._serial += 1
        path = self.write(f"kernel_{self._serial}.py", without_separators(self.kernel.bind(config).source), keep)
        self.ask(LoadResponse, self._limits.compile_s, "load", source=str(path), serial=self._serial, keep=keep)
        return self._serial, time.perf_counter() - start

    def _check_held(self, reference_client: ReferenceClient) -> None:
        """Check that the first call's outputs are unchanged after later calls."""
        answer = self.hand_over("again")
        if not reference_client.call("same", path=str(self.outputs), outputs=answer.described())["same"]:
            why = "a later call changed what an earlier one returned; give each call an output of its own"
            raise self.rejected("output-reused", "the output of the first call", why)

    def _is_deterministic(
        self, reference_client: ReferenceClient, serial: int, seed: int, comparisons: Comparisons
    ) -> bool:
        """Return whether the first call's inputs give the same bits again; they must be correct again in any case."""
        ran, verdict = self.compared(reference_client, serial, seed, self._limits.call_s)
        self._require_ok(verdict, comparisons)
        same: bool = reference_client.call("same", path=str(self.outputs), outputs=ran.described())["same"]
        return same

    def _require_ok(self, verdict: Message, comparisons: Comparisons, distribution: str | None = None) -> None:
        if (rejection := trivial_output_in(verdict)) is not None:
            self.worker.end()
            raise rejected(rejection)
        if "max_abs_error" in verdict:
            comparisons.add(verdict, distribution)
        if verdict["status"] == Status.OK:
            return
        # It may have written out of bounds; that must not reach the next config.
        self.worker.end()
        raise CandidateError(Status(verdict["status"]), verdict["message"], comparisons.summary(passed=False))
