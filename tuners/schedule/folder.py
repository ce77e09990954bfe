"""The folder of a schedule search, with the original's names, brought up to date with each better schedule."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...core import Config, Evaluation, Origin
from ...core.files import write_whole
from .files import dump_schedule
from .graph import order_and_stage
from .space import ScheduleSpace

COLUMNS = ("iteration", "latency_us", "is_improvement", "is_best", "status", "reason")


class TuningFolder:
    """Takes the trials in order, those of an earlier run first, and keeps the files in step.

    `schedules/schedule_0000.*` is the first success, each further number an improvement. Everything follows from the
    trials, so that a resumed search writes the same files.
    """

    def __init__(self, path: Path, space: ScheduleSpace) -> None:
        self.path = path
        self._space = space
        self._rows: list[dict[str, Any]] = []
        self._log: list[str] = []
        self.improvements: list[Evaluation] = []
        """The first success and all that were faster than any before."""

    def add(self, evaluation: Evaluation) -> bool:
        """Note one more trial; return whether it is an improvement."""
        config, latency = Config(evaluation.config), evaluation.latency_ms
        best = self.improvements[-1].latency_ms if self.improvements else None
        better = latency is not None and (best is None or latency < best)
        if better:
            self.improvements.append(evaluation)
            self._dump(evaluation, config)
        row = {
            "iteration": len(self._rows),
            "latency_us": None if latency is None else 1e3 * latency,
            "is_improvement": better and best is not None,
            "is_best": better,
            "status": evaluation.status.value,
            "reason": evaluation.message if latency is None else "",
            "simulated": evaluation.origin is Origin.SIMULATED,
            "tiles": dict(self._space.tiles_of(config)),
            "initiation_interval": config["INTERVAL"],
            "schedule": {name: config[name] for name in self._space.operations},
        }
        self._rows.append(row)
        shown = f"{1e3 * latency:.3f} us" if latency is not None else f"{evaluation.status}: {evaluation.message}"
        self._log.append(f"iteration {row['iteration']}: {config}: {shown}{' (best)' if better else ''}")
        return better

    def _dump(self, evaluation: Evaluation, config: Config) -> None:
        name = f"schedule_{len(self.improvements) - 1:04d}"
        tiles, (schedule, interval) = self._space.tiles_of(config), self._space.schedule_of(config)
        graph = self._space.graph(tiles)
        dump_schedule(graph, schedule, interval, self.path / "schedules" / f"{name}.txt", tiles)
        said = {
            "iteration": len(self._rows),
            "latency_us": 1e3 * (evaluation.latency_ms or 0.0),
            "simulated": evaluation.origin is Origin.SIMULATED,
            "initiation_interval": interval,
            "tiles": dict(tiles),
            "schedule": schedule,
        }
        write_whole(self.path / "schedules" / f"{name}.json", json.dumps(said, indent=1) + "\n")

    def write(self) -> None:
        """Write the progress as CSV, the history and the log."""
        text = io.StringIO()
        table = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(self._rows)
        write_whole(self.path / "tuning_progress.csv", text.getvalue())
        write_whole(self.path / "tuning_history.json", json.dumps(self._rows, indent=1) + "\n")
        write_whole(self.path / "tuning.log", "\n".join(self._log) + "\n")

    def note(self, text: str) -> None:
        """Add a line to the log."""
        self._log.append(text)

    def finish(self, best: Evaluation | None, own: Evaluation | None, **more: Any) -> dict[str, Any]:
        """Write all files, the summary last; return it. `own` is the kernel with the constants that it came with."""
        found: dict[str, Any] = {
            "simulated": bool(best and best.origin is Origin.SIMULATED),
            "best_latency_us": 1e3 * best.latency_ms if best and best.latency_ms else None,
            "first_latency_us": 1e3 * (self.improvements[0].latency_ms or 0.0) if self.improvements else None,
            "own_latency_us": 1e3 * own.latency_ms if own and own.latency_ms else None,
            "iterations": len(self._rows),
            "improvements": len(self.improvements),
            "failed": sum(row["latency_us"] is None for row in self._rows),
            **more,
        }
        if best is not None:
            config = Config(best.config)
            tiles, (schedule, interval) = self._space.tiles_of(config), self._space.schedule_of(config)
            order, stage = order_and_stage(self._space.graph(tiles), schedule, interval)
            found |= {
                "tiles": dict(tiles),
                "initiation_interval": interval,
                "schedule": schedule,
                "order": dict(zip(self._space.operations, order, strict=True)),
                "stage": dict(zip(self._space.operations, stage, strict=True)),
            }
        self._log.append(f"finished {datetime.now(UTC).isoformat(timespec='seconds')}")
        self.write()
        write_whole(self.path / "final_results.json", json.dumps(found, indent=1) + "\n")
        return found
