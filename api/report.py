"""`report`: recorded runs as HTML pages that need nothing else."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..agent.history.conversation import is_long
from ..agent.history.files import runs_in
from ..agent.program.answers import fields
from ..core import KernelwrightError, OptionError
from ..core.events import Emit, Warned
from ..core.extras import require_extra
from ..core.files import write_whole
from ..core.text import gigabytes
from .options.report import ReportOptions

if TYPE_CHECKING:
    from ..agent.history.run import History

NOTHING, TIMES = "\N{EN DASH}", "\N{MULTIPLICATION SIGN}"
TEMPLATES = Path(__file__).parent / "templates"
BATCH = "report.html"
"""The page that lists several runs."""
_JOURNAL = re.compile(r"^journal_(.*)\.jsonl$")


@dataclass(frozen=True)
class ReportResult:
    """The pages that were written."""

    page: Path
    """Of the run, or of the batch."""
    runs: tuple[Path, ...] = ()
    """Of a batch: the page of each run, in the order of the batch's table."""

    def summary(self) -> dict[str, Any]:
        """The files as plain data, as `--json` prints it."""
        return {"report": str(self.page), **({"runs": [str(path) for path in self.runs]} if self.runs else {})}


@dataclass(frozen=True)
class BatchRun:
    """A run of a batch, and its page."""

    history: History
    page: Path


def run_report(options: ReportOptions, emit: Emit) -> ReportResult:
    """One page about a run; about several runs of a folder a page for each, and one that lists them."""
    require_extra("a report", "matplotlib", "plots")
    journals = runs_in(options.run)
    if len(journals) == 1:
        return _report_run(journals[0], options.output)
    return _report_batch(journals, options.output, emit)


def _report_run(journal: Path, output: Path | None) -> ReportResult:
    from ..agent.history.run import load_history

    history = load_history(journal)
    path = output or default_path(journal)
    _write(path, page(history), history.files.all)
    return ReportResult(path)


def _report_batch(journals: Iterable[Path], output: Path | None, emit: Emit) -> ReportResult:
    """A run that cannot be read, such as one that ended before it began, costs its page only."""
    from ..agent.history.run import load_history

    histories: list[History] = []
    unreadable: list[tuple[Path, KernelwrightError]] = []
    for journal in journals:
        try:
            histories.append(load_history(journal))
        except KernelwrightError as error:
            unreadable.append((journal, error))
            emit(Warned(str(error)))
    if not histories:
        raise unreadable[0][1]
    top = output or histories[0].files.journal.with_name(BATCH)
    runs = [
        BatchRun(history, top.with_name(default_path(history.files.journal).name)) for history in by_speedup(histories)
    ]
    if any(top.resolve() == run.page.resolve() for run in runs):
        raise OptionError(f"`output` {top} would be the page of one run as well", "name another file")
    kept = [file for history in histories for file in history.files.all]
    for run in runs:
        _write(run.page, page(run.history), kept)
    _write(top, batch_page(runs, [path.name for path, _ in unreadable]), kept)
    return ReportResult(top, tuple(run.page for run in runs))


def _write(path: Path, text: str, kept: Iterable[Path]) -> None:
    if path.resolve() in {file.resolve() for file in kept}:
        raise OptionError(f"`output` {path} is a file of the run, which the report would overwrite", "name another one")
    # A model's reply may hold halves of surrogate pairs, which no encoding takes.
    write_whole(path, text.encode("utf-8", "replace"), "choose another `output`")


def default_path(journal: Path) -> Path:
    """Beside the journal: `report_<problem>_<backend>.html`."""
    match = _JOURNAL.match(journal.name)
    return journal.with_name(f"report_{match[1] if match else journal.stem}.html")


def by_speedup(histories: Iterable[History]) -> list[History]:
    """The fastest against the baseline of its target first; those without a verified kernel come last."""

    def key(history: History) -> tuple[bool, bool, float, str]:
        end, speedup = history.finished, history.speedup
        return (end is None or not end.verified, speedup is None, -(speedup or 0.0), history.problem)

    return sorted(histories, key=key)


def page(history: History) -> str:
    """The whole page of a run."""
    from markupsafe import Markup

    from .plots import convergence, roofline

    plots = {"convergence": convergence(history), "roofline": roofline(history)}
    return _render(
        "report.html.j2", run=history, plots={name: Markup(svg) if svg else None for name, svg in plots.items()}
    )


def batch_page(runs: Sequence[BatchRun], unreadable: Iterable[str] = ()) -> str:
    """The page that lists the runs, with links to theirs."""
    histories = [run.history for run in runs]
    ends = [(history, history.finished) for history in histories if history.finished and history.finished.verified]
    gains = [history.times_faster for history, _ in ends if history.times_faster]
    seconds = [history.seconds for history in histories if history.seconds is not None]
    return _render(
        "batch.html.j2",
        runs=[(run.history, quote(run.page.name)) for run in runs],
        devices=list(dict.fromkeys(history.device for history in histories)),
        reached=sum(end.target_reached for _, end in ends),
        verified=len(ends),
        gain=statistics.geometric_mean(gains) if gains else None,
        seconds=sum(seconds) if seconds else None,
        trials=sum(len(history.trials) for history in histories),
        turns=sum(len(history.turns) for history in histories),
        tokens=sum(history.tokens for history in histories),
        exchanges=sum(len(history.exchanges) for history in histories),
        spent=sum(history.dollars for history in histories),
        unreadable=list(unreadable),
    )


def _render(template: str, **values: Any) -> str:
    """A page. Every text of a run is escaped: models and kernels wrote it."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ms": milliseconds,
        "ratio": ratio,
        "duration": duration,
        "dollars": dollars,
        "gigabytes": gigabytes,
        "compact": compact,
    }
    environment.globals |= {"diff_lines": diff_lines, "long": is_long, "fields": answer_fields}
    style = Markup((TEMPLATES / "report.css").read_text(encoding="utf-8"))
    return environment.get_template(template).render(style=style, **values)


def milliseconds(value: float | None) -> str:
    """'1.746 ms', with four digits; a dash for what was not measured."""
    if value is None:
        return NOTHING
    if value >= 1000:
        return f"{value:,.0f} ms"
    return f"{value:#.4g} ms"


def ratio(value: float | None) -> str:
    """'1.238' and the sign of multiplication."""
    return NOTHING if value is None else f"{value:.3f}{TIMES}"


def duration(seconds: float | None) -> str:
    """'340 ms', '16.2 s', '3 min 05 s', '1 h 02 min'."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def dollars(value: float) -> str:
    """'$0.1018'; cents only from ten dollars on."""
    return f"${value:.2f}" if value >= 10 else f"${value:.4f}"


def diff_lines(diff: str) -> list[tuple[str, str]]:
    """Each line of a unified diff without its two header lines, and its kind: add, del, hunk or same."""
    kinds = {"+": "add", "-": "del", "@": "hunk"}
    return [(kinds.get(line[:1], "same"), line) for line in diff.splitlines()[2:]]


def answer_fields(answer: str) -> dict[str, str]:
    """A tool's answer by its fields; as it is when it has none."""
    return fields(answer) or {"": answer}


def compact(value: Any) -> str:
    """A tool's argument in one line: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
