"""The evaluation of one candidate, or of several side by side, from compiling to the `Evaluation`."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...core import CHECKED_NOT_TIMED, Config, Evaluation, Kernel, KernelProfile, Target
from ...core.launch_plan import LaunchPlan
from ..candidate.client import CandidateClient
from ..candidate.replayer import Replayer
from ..candidate.verified import CandidateError, VerifiedConfig, rejected
from ..compilation.pool import CompileResult
from ..reference.client import ReferenceClient
from ..reference.roofline import ceilings
from ..replay.saved import save_plan
from ..settings import Sampling, Settings
from ..timing.sampling import Timing
from .device_access import DeviceAccess
from .impossible_time import CPU_CACHE_BYTES, impossible
from .interleaved_timer import InterleavedTimer, InterleavedTimes
from .processes import Processes
from .verdicts import common_fields, failed_evaluation
from .verification import Verification

PRUNED = "slower than {:g} times the best: not timed any further"


def is_timed(kernel: Kernel, device: str) -> bool:
    """Return False where an interpreter replaces the target: its speed means nothing."""
    return kernel.target is Target.of_device(device)


class EvaluationPipeline:
    """Evaluates candidates through their clients; the caller has the device, which `access` releases in between.

    `memory` is a folder for once-per-device measurements, `draw` gives seeds.
    """

    def __init__(
        self,
        device: str,
        settings: Settings,
        timer: InterleavedTimer,
        memory: Path | None,
        processes: Processes,
        draw: Callable[[], int],
        access: DeviceAccess,
    ) -> None:
        self._device = device
        self._settings = settings
        self._timer = timer
        self._memory = memory
        self._processes = processes
        self._draw = draw
        self._access = access

    def compile_baselines(self, reference_client: ReferenceClient) -> None:
        """Compile the baselines before the device is locked."""
        self._timer.compile_ahead(reference_client)

    def one(
        self,
        reference_client: ReferenceClient,
        client: CandidateClient,
        config: Config,
        compiled: CompileResult | None = None,
        prune_above_ms: float | None = None,
    ) -> Evaluation:
        """Evaluate in full, or for a search, which prunes configs that are far slower than the best."""
        self._processes.servers.device_memory.restart()
        found = self._one(reference_client, client, config, compiled, prune_above_ms)
        return found.model_copy(update={"peak_memory_bytes": self._processes.servers.device_memory.peak_bytes})

    def _one(
        self,
        reference_client: ReferenceClient,
        client: CandidateClient,
        config: Config,
        compiled: CompileResult | None,
        prune_above_ms: float | None,
    ) -> Evaluation:
        quick = prune_above_ms is not None
        with contextlib.closing(self._verification(reference_client, client, quick)) as verification:
            return self._verified(verification, config, compiled, prune_above_ms)

    def _verified(
        self, verification: Verification, config: Config, compiled: CompileResult | None, prune_above_ms: float | None
    ) -> Evaluation:
        quick, search = verification.quick, self._settings.search
        reference_client, client = verification.reference_client, verification.client
        found = common_fields(reference_client, client.kernel, config)
        found |= {"code_digest": compiled.digest if compiled else None, "stages": verification.stages}
        try:
            plan = verification.plan()
            checked = verification.check(config, plan, compiled)
            found |= {"correctness": checked.correctness, "compile_s": checked.compile_s}
            verification.prove(checked)
            if not is_timed(client.kernel, self._device):
                found["correctness"] = verification.with_remarks(checked)
                found["second_workload"] = verification.try_other_sizes(checked, compiled)
                return Evaluation(**found, library=checked.library, message=CHECKED_NOT_TIMED)
            sampling = search.sampling if quick and search else self._settings.sampling
            if not quick:
                verification.start_replaying()
                self._processes.expect_next()  # they open the GPU while the plan is checked
                verification.replay(checked, plan)
                found |= {"replay": checked.replay, "correctness": checked.correctness, "host_us": checked.host_us}
            if checked.replayed:
                found |= self._collect_diagnostics(verification, checked, compiled)
            times = self._time(verification, [checked], sampling, prune_above_ms)
            found |= times.metrics(0, self._device == "cpu")
            found["launches_ms"] = verification.launches_ms(checked)
            if times.candidates[0].pruned and search:
                found["message"] = PRUNED.format(search.prune_factor)
            else:
                self._recheck(verification, checked)
            found |= {"packing": checked.packing, "library": checked.library}
            if not quick:
                self._require_possible(reference_client, times.candidates[0])
                if not checked.replayed:
                    found |= self._collect_diagnostics(verification, checked, compiled)
                self._sanitize(verification, checked)
                found["sanitizer"] = checked.sanitizer
        except CandidateError as failure:
            failed = failed_evaluation(reference_client, client, config, failure)
            if failure.rejection is not None:  # its worker is not used for another config
                client.close()
            return failed.model_copy(update={"code_digest": found["code_digest"], "stages": verification.stages})
        return Evaluation(**found)

    def _collect_diagnostics(
        self, verification: Verification, checked: VerifiedConfig, compiled: CompileResult | None
    ) -> dict[str, Any]:
        """Return what is not a failure; the config is unloaded afterwards."""
        profile = verification.profile(checked)
        verification.release()
        return {
            "kernel_profile": profile,
            "correctness": verification.with_remarks(checked),
            "second_workload": verification.try_other_sizes(checked, compiled),
        }

    def plan(
        self,
        reference_client: ReferenceClient,
        client: CandidateClient,
        save: Path | None,
        compiled: CompileResult | None = None,
    ) -> tuple[Evaluation, LaunchPlan | None]:
        """Check a kernel, make its launch plan and replay it once; write one that does the same to a folder.

        Nothing is timed.
        """
        found = common_fields(reference_client, client.kernel, Config())
        try:
            with contextlib.closing(self._verification(reference_client, client)) as verification:
                found |= {"stages": verification.stages}
                plan = verification.plan()
                checked = verification.check(Config(), plan, compiled)
                recorded = verification.replay(checked, plan)
                found |= {"correctness": checked.correctness, "compile_s": checked.compile_s}
        except CandidateError as failure:
            return failed_evaluation(reference_client, client, Config(), failure), None
        if (
            save is not None and checked.replayed and not checked.depends_on
        ):  # several hold for their own integers alone
            save_plan(recorded[0].plan, recorded[0].constants, recorded[0].path, save)
        evaluation = Evaluation(**found, message=CHECKED_NOT_TIMED, replay=checked.replay)
        return evaluation, recorded[0].plan if recorded else None

    def _verification(
        self, reference_client: ReferenceClient, client: CandidateClient, quick: bool = False
    ) -> Verification:
        """Return the steps that verify a candidate, with a process of its own that executes its plans."""
        replayer = Replayer(self._processes.replay_workers, self._settings.limits, self._processes.passes_memory)
        pair = reference_client, client, self._settings, self._device, self._draw, self._access, quick
        return Verification(*pair, replayer=replayer)

    def _recheck(self, verification: Verification, checked: VerifiedConfig) -> None:
        verification.recheck(checked)
        verification.time_packing(checked)
        verification.release()
        if not checked.replayed:
            verification.prove(checked)  # again: its own work may have become torch's

    def _sanitize(self, verification: Verification, checked: VerifiedConfig) -> None:
        """Let compute-sanitizer look at a config that passed all else; raises `CandidateError` for what it finds."""
        sanitizer, digest = self._processes.sanitizer, verification.client.kernel.digest
        if not (self._settings.sanitize and sanitizer.watches(self._device)):
            return
        with verification.stage("sanitizer"):
            found = sanitizer.look(verification.reference_client, verification.replayer, checked, digest)
        verification.release()
        checked.sanitizer = found.tools
        if found.finding is not None:
            failure = rejected(found.finding)
            failure.config, failure.correctness = checked.config, checked.correctness
            raise failure

    def _time(
        self,
        verification: Verification,
        several: Sequence[VerifiedConfig],
        sampling: Sampling,
        prune_above_ms: float | None = None,
    ) -> InterleavedTimes:
        """Time interleaved: the candidates with each other and, outside of a search, with the reference."""
        reference_client, replayed = verification.reference_client, all(item.replayed for item in several)
        pid = verification.pid_of(several[0]) if replayed else verification.client.worker.pid
        if replayed:
            verification.client.kill()
        self._processes.wait_ready()
        self._processes.replay_workers.wait()
        self._access.upgrade_to_exclusive()
        if replayed:  # no process of the candidate runs during the timing, and its GPU memory is not freed meanwhile
            verification.warm_up()
            verification.client.end()
        with verification.stage("timing"):
            return self._timer.time(
                reference_client, verification.timers(several), pid, verification.timing_seeds, sampling, prune_above_ms
            )

    def _require_possible(self, reference_client: ReferenceClient, timing: Timing) -> None:
        """Raise `CandidateError` for a time that is shorter than moving the bytes takes."""
        cache_bytes = (
            2 * reference_client.properties["L2_cache_size"] if reference_client.properties else CPU_CACHE_BYTES
        )
        bytes_moved = reference_client.counted["min_bytes"] - cache_bytes
        if bytes_moved > 0:
            ours = (*self._timer.server_pids, reference_client.pid)
            heeds_load = self._settings.sampling.heeds_load
            best = ceilings(reference_client, self._device, self._memory, ours, heeds_load)
            if (broken := impossible(timing.measurement.median_ms, bytes_moved, best)) is not None:
                raise rejected(broken)

    def several(
        self, reference_client: ReferenceClient, client: CandidateClient, configs: Sequence[Config]
    ) -> list[Evaluation]:
        """Check all in one process, then time them interleaved; a failed one is left out, and the rest start over.

        The `stages` of each are its share of all seconds.
        """
        self._processes.servers.device_memory.restart()
        failed: dict[Config, Evaluation] = {}
        stages: Counter[str] = Counter()
        while True:
            left = [config for config in configs if config not in failed]
            with contextlib.closing(self._verification(reference_client, client)) as verification:
                try:
                    found = self._together(verification, left)
                    break
                except CandidateError as failure:
                    guilty = failure.config if failure.config is not None else left[-1]
                    failed[guilty] = failed_evaluation(reference_client, client, guilty, failure)
                    client.close()
                finally:
                    stages.update(verification.stages)
        found |= failed
        shared = {
            "stages": {name: seconds / len(configs) for name, seconds in stages.items()},
            "peak_memory_bytes": self._processes.servers.device_memory.peak_bytes,
        }
        return [found[config].model_copy(update={} if config in failed else shared) for config in configs]

    def _together(self, verification: Verification, configs: Sequence[Config]) -> dict[Config, Evaluation]:
        """Evaluate interleaved; raises the `CandidateError` of the first that fails, with its config."""
        reference_client, client, plan = verification.reference_client, verification.client, verification.plan()
        timed = bool(configs) and is_timed(client.kernel, self._device)
        checked: dict[Config, VerifiedConfig] = {}
        profiles: dict[Config, KernelProfile | None] = {}
        times: InterleavedTimes | None = None
        current: Config | None = None
        try:
            for current in configs:
                checked[current] = verification.check(current, plan, keep=bool(checked))
                verification.prove(checked[current])
            for current in configs if timed else ():
                verification.replay(checked[current], plan)
                profiles[current] = verification.profile(checked[current])
            if timed:
                times = self._time(verification, list(checked.values()), self._settings.sampling)
                for current, timing in zip(configs, times.candidates, strict=True):
                    self._recheck(verification, checked[current])
                    self._require_possible(reference_client, timing)
                for number in times.fastest_first():
                    current = configs[number]
                    self._sanitize(verification, checked[current])
                    if checked[current].replayed:
                        break
        except CandidateError as failure:
            failure.config = failure.config if failure.config is not None else current
            raise
        found = {}
        for number, (config, verified) in enumerate(checked.items()):
            metrics = times.metrics(number, self._device == "cpu") if times else {"message": CHECKED_NOT_TIMED}
            fields = common_fields(reference_client, client.kernel, config) | metrics
            fields |= {"replay": verified.replay, "host_us": verified.host_us}
            found[config] = Evaluation(
                **fields,
                correctness=verified.correctness,
                packing=verified.packing,
                library=verified.library,
                sanitizer=verified.sanitizer,
                compile_s=verified.compile_s,
                kernel_profile=profiles.get(config),
            )
        return found
