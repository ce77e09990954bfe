"""`kernelwright report`: a recorded run as one HTML page that needs nothing else."""

from __future__ import annotations

import json as json_module
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..agent.program.answers import fields
from ..core import source_lines
from .guard import guarded
from .options import OUTPUT, JsonOption

if TYPE_CHECKING:
    from ..agent.history.run import History

NOTHING, TIMES = "\N{EN DASH}", "\N{MULTIPLICATION SIGN}"
TEMPLATES = Path(__file__).parent / "templates"
_JOURNAL = re.compile(r"^journal_(.*)\.jsonl$")


def report(
    run: Annotated[Path, typer.Argument(help="The journal of a run, or a results folder with one run.", metavar="RUN")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; beside the journal by default.", metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Write one HTML page about a run of 'optimize': figures, plots, and each turn with its prompts, tools and changes.

    Exit codes: 0 written, 2 wrong usage.
    """
    raise typer.Exit(guarded(lambda: run_report(run, output, json)))


def run_report(run: Path, output: Path | None, json: bool) -> int:
    """The exit code of `report`."""
    from ..agent.history.run import load_history
    from ..core import OptionError
    from ..core.files import write_whole

    history = load_history(run)
    path = output or default_path(history.files.journal)
    if path.is_dir():
        raise OptionError(f"--output {path} is a folder; name a file")
    if path.resolve() in {file.resolve() for file in history.files.all}:
        raise OptionError(f"--output {path} is a file of the run, which the report would overwrite; name another one")
    # A model's reply may hold halves of surrogate pairs, which no encoding takes.
    write_whole(path, page(history).encode("utf-8", "replace"), "choose another --output")
    typer.echo(json_module.dumps({"report": str(path)}) if json else f"report: {path}")
    return 0


def default_path(journal: Path) -> Path:
    """Beside the journal: `report_<problem>_<backend>.html`."""
    match = _JOURNAL.match(journal.name)
    return journal.with_name(f"report_{match[1] if match else journal.stem}.html")


def page(history: History) -> str:
    """The whole page. Every text of the run is escaped: models and kernels wrote it."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    from .report_plots import convergence, roofline

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
        "compact": compact,
    }
    environment.globals |= {"diff_lines": diff_lines, "long": _long, "fields": answer_fields}
    plots = {"convergence": convergence(history), "roofline": roofline(history)}
    return environment.get_template("report.html.j2").render(
        run=history,
        plots={name: Markup(svg) if svg else None for name, svg in plots.items()},
        style=Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
    )


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
    return [(kinds.get(line[:1], "same"), line) for line in source_lines(diff)[2:]]


def answer_fields(answer: str) -> dict[str, str]:
    """A tool's answer by its fields; as it is when it has none."""
    return fields(answer) or {"": answer}


def compact(value: Any) -> str:
    """A tool's argument in one line: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json_module.dumps(value, ensure_ascii=False)


def _long(value: Any) -> bool:
    """Whether a tool's argument is a text of several lines, such as a kernel."""
    return isinstance(value, str) and "\n" in value
