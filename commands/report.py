"""Write one HTML page about a run of 'optimize': metrics, plots, and each turn with its prompts, tools and changes.

A folder with several runs gets a page for each and an index. A record of `kernelwright model` gets a page
with the model's step as a bar of regions, before and after.

Exit codes: 0 written, 2 wrong usage.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from pydantic import Field

from ..agent.history.records import is_long, runs_in
from ..agent.history.run import History, load_history
from ..agent.program.answers import fields
from ..core import KernelwrightError, OptionError
from ..core.events import Emit, Warned
from ..core.extras import require_extra
from ..core.files import write_whole
from ..core.text import gigabytes
from ..runtime import command, result
from ..runtime.options.groups import OUTPUT
from ..runtime.options.option import Options as BaseOptions
from ..runtime.options.option import described, option
from ..runtime.runtime import Runtime
from ._model_page import model_values, read_model_record

EXAMPLES = (
    "report results",
    "report results/multiturn_logs --output runs.html",
    "report results/model_train.json",
)
POSITIONAL = ("run",)
BATCH = "report.html"
"""The page that lists several runs."""
_JOURNAL = re.compile(r"^journal_(.*)\.jsonl$")
NOTHING, TIMES = "\N{EN DASH}", "\N{MULTIPLICATION SIGN}"
TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Write HTML pages about recorded runs."""

    run: Path = field(
        kw_only=False,
        metadata=described(
            "The journal of a run, a results folder with one run or more, or a record of `kernelwright model`.",
            metavar="RUN",
        ),
    )
    output: Path | None = option(
        None,
        "File to write, next to the journal by default. With several runs it is the page that lists them; their pages "
        "are written next to it.",
        OUTPUT,
        metavar="FILE",
    )

    def check(self) -> None:
        """Raise `OptionError` for an impossible output."""
        super().check()
        if self.output is not None and self.output.is_dir():
            raise OptionError(f"`output` {self.output} is a folder", "name a file")


@dataclass(frozen=True)
class Plan(command.Plan):
    """The runs, and the page about them."""

    model: Path | None
    """A record of a model; then there are no runs."""
    journals: tuple[Path, ...]
    output: Path | None
    """File of the page; None for the journal's folder."""


class Result(result.Result):
    """The pages that were written."""

    absent_if_empty: ClassVar = ("runs",)
    page: Path = Field(serialization_alias="report")
    """The page of the run or of the batch."""
    runs: tuple[Path, ...] = ()
    """For a batch, the page of each run in the order of its table."""

    def lines(self) -> Iterator[str]:
        """The page, and the pages of a batch's runs."""
        yield f"report: {self.page}"
        for page in self.runs:
            yield f"  {page}"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find the runs."""
    if read_model_record(options.run) is not None:
        return Plan(options.run, (), options.output)
    require_extra("a report", "matplotlib", "plots")
    return Plan(None, runs_in(options.run), options.output)


def run(plan: Plan, emit: Emit) -> Result:
    """Write a page about a run; for a folder with several runs, a page for each and a page that lists them."""
    if plan.model is not None:
        return _report_model(plan.model, plan.output)
    if len(plan.journals) == 1:
        return _report_run(plan.journals[0], plan.output)
    return _report_batch(plan.journals, plan.output, emit)


def _report_model(record: Path, output: Path | None) -> Result:
    found = read_model_record(record)
    assert found is not None
    path = output or record.with_name(f"report_{record.stem}.html")
    _write(path, _render("model.html.j2", **model_values(found)), [record])
    return Result(page=path)


def _report_run(journal: Path, output: Path | None) -> Result:
    history = load_history(journal)
    path = output or default_path(journal)
    _write(path, run_page(history), history.files.all)
    return Result(page=path)


def _report_batch(journals: Iterable[Path], output: Path | None, emit: Emit) -> Result:
    """Write the pages of a batch. A run that cannot be read has no page, and does not stop the others."""
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
        _write(run.page, run_page(run.history), kept)
    _write(top, batch_page(runs, [path.name for path, _ in unreadable]), kept)
    return Result(page=top, runs=tuple(run.page for run in runs))


def _write(path: Path, text: str, kept: Iterable[Path]) -> None:
    if path.resolve() in {file.resolve() for file in kept}:
        raise OptionError(f"`output` {path} is a file of the run, which the report would overwrite", "name another one")
    # A model's reply may contain lone surrogates, which cannot be encoded.
    write_whole(path, text.encode("utf-8", "replace"), "choose another `output`")


def default_path(journal: Path) -> Path:
    """Return the default page in the journal's folder: `report_<problem>_<backend>.html`."""
    match = _JOURNAL.match(journal.name)
    return journal.with_name(f"report_{match[1] if match else journal.stem}.html")


def by_speedup(histories: Iterable[History]) -> list[History]:
    """Sort by speedup over the baseline of the target, the fastest first. Runs without a verified kernel come last."""

    def key(history: History) -> tuple[bool, bool, float, str]:
        end, speedup = history.finished, history.speedup
        return (end is None or not end.verified, speedup is None, -(speedup or 0.0), history.problem)

    return sorted(histories, key=key)


@dataclass(frozen=True)
class BatchRun:
    """A run of a batch, and its page."""

    history: History
    page: Path


def run_page(history: History) -> str:
    """The whole page of a run."""
    from markupsafe import Markup

    from ..runtime.plots import convergence, roofline

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
        with_target=sum(
            history.finished is None or history.finished.target_speedup is not None for history in histories
        ),
        reached=sum(end.target_reached is True for _, end in ends),
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
    """Render a page. All texts of a run are escaped, since models and kernels wrote them."""
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
    """Format a time with four digits, '1.746 ms'; a dash if it was not measured."""
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
    """Split a tool's answer into its fields; unchanged if it has none."""
    return fields(answer) or {"": answer}


def compact(value: Any) -> str:
    """Format a tool's argument on one line: a string unchanged, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
