"""Shows the events of any command and of searches: a live table, lines in a pipe, nothing if quiet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.status import Status as Spinner
from rich.text import Text

from ..core import Evaluation, Value
from ..core.events import (
    SEARCHED,
    Event,
    FinalsStarted,
    Finished,
    Mark,
    Note,
    PartDone,
    PartStarted,
    Replying,
    SearchStarted,
    Step,
    TrialDone,
    Warned,
)
from ..core.quotation import LONGEST_LINE, plain, printable
from ..core.text import first_line
from ..runtime.result import LONGEST_CONFIG, Result, describe_config, duration, shortened, status_text, table
from .parameters import Display as Display
from .parameters import as_flags

_COLORS = {Mark.GOOD: "green", Mark.DOUBTFUL: "yellow", Mark.FAILED: "red"}
ROWS = 8
"""Number of latest trials in the live table."""


LONGEST_REMARK = 48
"""Characters of the remark behind a long config in a line of a search."""
_ENDS = ("\n", "\r")


class PlainConsole(Console):
    """A console that shows any text as plain text, since kernels, references and models contribute to it.

    Control characters are left out, and the middle and markup of very long lines.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See `Console`."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text in _ENDS or segment.text.isprintable():
                yield segment
            else:
                yield Segment(plain(segment.text), segment.style)

    def render_str(self, text: str, **options: Any) -> Text:
        """See `Console`."""
        if any(len(line) > LONGEST_LINE for line in text.splitlines()):  # rich takes minutes for megabytes
            return Text(printable(text).replace("\\[", "["))
        return super().render_str(text, **options)


class Screen:
    """Prints text and the events that every command shows. Screens of single commands derive from it."""

    def __init__(self, display: Display) -> None:
        self.display = display
        self.console = console(stderr=display.json or display.to_stderr)
        self.errors = console(stderr=True)
        self.console.file = self.console.file  # this very stream, whatever sys.stdout becomes while a library draws
        self.steps: dict[str, Spinner | Progress] = {}
        """Progress displays of unfinished steps, by their texts."""
        self.shown: list[Result] = []

    def emit(self, event: Event) -> None:
        """Show an event, if it is meant for users."""
        match event:
            case Note():
                self.note(event.text)
            case Warned():
                self.warn(event.text)
            case PartStarted():
                self.heading(f"[{event.number}/{event.total}] {event.name}")
            case PartDone(result=Result() as result):
                self.show(result, self.console)
            case PartDone() if event.text:
                self._say_part(event)
            case Step():
                self._draw_step(event) if self.live else self._say_step(event)
            case Replying() if self.live:
                text = f"({event.lane}) the model has written {event.characters} characters"
                self.console.print(f"[dim]  {text}[/]", end="\r")

    @property
    def listing(self) -> Console:
        """The console for the result: standard output, even if everything else goes to standard error."""
        return console() if self.display.to_stderr and not self.display.json else self.console

    @property
    def live(self) -> bool:
        """Whether there is a terminal to draw on."""
        return self.console.is_terminal and not self.display.quiet

    def print(self, *parts: Any) -> None:
        """Print texts with markup, or tables."""
        self.console.print(*parts)

    def print_lines(self, lines: Iterable[Any]) -> None:
        """Print strings unchanged, and rich objects."""
        for line in lines:
            self.console.print(escape(line) if isinstance(line, str) else line)

    def show(self, result: Result, console: Console | None) -> None:
        """Show a result, or only its failure and warnings; these go to standard error."""
        if any(result is shown for shown in self.shown):
            return
        self.shown.append(result)
        if result.failure:
            self.errors.print(f"[red]failed:[/] {as_flags(result.failure)}")
            if result.log and self.display.verbose:
                self.errors.print(escape(result.log))
            return
        for line in result.lines() if console is not None else ():
            assert console is not None
            console.print(escape(line) if isinstance(line, str) else line)
        for warning in result.warnings:
            self.warn(warning)

    def note(self, text: str) -> None:
        """A remark."""
        if not self.display.quiet:
            self.console.print(shown(text))

    def warn(self, text: str) -> None:
        """A warning, on standard error."""
        self.errors.print(f"[yellow]warning:[/] {shown(text)}")

    def heading(self, text: str) -> None:
        """A heading between kernels of a batch."""
        if not self.display.quiet:
            self.console.rule(escape(text)) if self.live else self.console.print(escape(text))

    def _say_part(self, part: PartDone) -> None:
        """One line, on standard error if there is no result; failures are shown with `--quiet` too."""
        left = f"; about {duration(part.left_s)} left" if part.left_s and part.number < part.total else ""
        text, number = f"{part.text}{left}", f"[{part.number:>{len(str(part.total))}}/{part.total}]"
        if part.mark is not None:
            if part.mark is Mark.FAILED or not self.display.quiet:
                self.print(f"{number} [{_COLORS[part.mark]}]{escape(part.name)}[/]: {escape(text)}")
        elif part.failed:
            self.errors.print(escape(f"{number} {text}"))
        else:
            self.note(f"{number} {text}")

    def _say_step(self, step: Step) -> None:
        """One line when a step begins, or for each named part when it is done."""
        if step.over:
            return
        if step.total is None:
            self.note(step.text)
        elif step.done and step.name:
            self.note(f"{step.text} {step.done}/{step.total}: {step.name}")

    def _draw_step(self, step: Step) -> None:
        """A spinner, or a bar where the step has parts, until it is over; several bars are one drawing."""
        drawn = self.steps.get(step.text)
        if step.over:
            if drawn is not None:
                self.steps.pop(step.text)
                if drawn not in self.steps.values():
                    drawn.stop()
        elif drawn is None and step.total is None:
            self.steps[step.text] = spinner = self.console.status(escape(step.text))
            spinner.start()
        elif drawn is None:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            known = next((drawn for drawn in self.steps.values() if isinstance(drawn, Progress)), None)
            bars = known or Progress(*columns, console=self.console, transient=True)
            self.steps[step.text] = bars
            bars.add_task(step.text, total=step.total, step=step.text)
            bars.start()
        elif isinstance(drawn, Progress):
            task = next(bar.id for bar in drawn.tasks if bar.fields["step"] == step.text)
            drawn.update(task, completed=step.done, description=f"{step.text} {step.name}".rstrip())


def shown(text: str) -> str:
    """A message of another layer, with its option names as flags."""
    return escape(as_flags(text))


def console(stderr: bool = False) -> Console:
    """A console that does not cut tables to 80 columns without a terminal."""
    fitting = PlainConsole(stderr=stderr, highlight=False)
    return fitting if fitting.is_terminal else PlainConsole(stderr=stderr, highlight=False, soft_wrap=True, width=160)


class SearchLines(Screen):
    """One line per trial."""

    _of = ""
    _best: Mapping[str, Value] = {}
    _search: SearchStarted | None = None
    """The config of the best trial so far: long configs are shown by what differs from it."""

    def emit(self, event: Event) -> None:
        """Show an event of a search."""
        match event:
            case SearchStarted():
                self._started(event)
            case TrialDone(origin=origin) if origin == SEARCHED:
                self.trial(event)
            case FinalsStarted():
                several = "finalists and the unchanged kernel"
                several = "combinations of finalists and the default module" if event.combined else several
                self.finals(f"measuring {len(event.configs) - 1} {several}, interleaved")
            case Finished():
                self.close()
            case _:
                super().emit(event)

    def _started(self, search: SearchStarted) -> None:
        """The space, and the number of configs that the device rules out."""
        configs = f"some of {search.space.cardinality}" if search.configs is None else search.configs
        left_out = left_out_text(search)
        self.note(
            f"tuning {search.name}: {configs} configs ({search.origin} space), {left_out} ruled out by the device"
        )
        for rule in search.rules:
            self.note(f"  device: {rule}")
        self._search = search
        self._of = f"/{search.most_trials}" if search.most_trials else ""
        self.begin(search)

    def begin(self, search: SearchStarted) -> None:
        """Before the first trial."""

    def trial(self, trial: TrialDone) -> None:
        """One line."""
        evaluation = trial.evaluation
        latency = f"{evaluation.latency_ms:.4f} ms" if evaluation.latency_ms else ""
        best = "best" if trial.best is evaluation else ""
        config = describe_config(evaluation.config)
        of = self._of or (f"/{trial.most_trials}" if trial.most_trials else "")
        differing = {name: value for name, value in evaluation.config.items() if self._best.get(name) != value}
        if best:
            self._best = evaluation.config
        if len(config) <= LONGEST_CONFIG:
            mark = f"  {best}" if best else ""
            self.note(f"[{trial.number}{of}] {config}: {evaluation.status} {latency}{mark}{remark(evaluation)}")
            return
        left_s = self._left_s(trial)
        left = "" if left_s is None else f"about {duration(left_s)} left"
        config = describe_config(differing or evaluation.config)
        number, status = f"{trial.number:>{max(1, len(of) - 1)}}{of}", str(evaluation.status)
        copy = "  (the code of an earlier trial)" if evaluation.duplicate_of is not None else ""
        shown = f"{shortened(config)}{copy or shortened(remark(evaluation), LONGEST_REMARK)}"
        self.note(f"[{number}] {status:<13} {latency:>12}  {best:<4}  {left:<17}  {shown}")

    def _left_s(self, trial: TrialDone) -> float | None:
        """Return an estimate of the seconds left until trials (of which a space may have few) or time run out."""
        if (search := self._search) is not None:
            trial = replace(trial, most_trials=search.most_trials, limit_s=search.budget.seconds)
        return trial.left_s

    def finals(self, text: str) -> None:
        """One line."""
        self.note(text)

    def close(self) -> None:
        """The search ended, in whatever way."""


class SearchTable(SearchLines):
    """The latest trials, the counts, the best so far, and how much is left."""

    _live: Live | None = None

    def begin(self, search: SearchStarted) -> None:
        """Draw the table."""
        self._latest: deque[tuple[str, ...]] = deque(maxlen=ROWS)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
        self._bar = Progress(*columns)
        self._task = self._bar.add_task("trial 0", total=search.most_trials, left="")
        self._live = Live(console=self.console, refresh_per_second=8)
        self._live.start()

    def trial(self, trial: TrialDone) -> None:
        """A row."""
        if self._live is None:
            return
        evaluation = trial.evaluation
        latency = f"{evaluation.latency_ms:.4f} ms" if evaluation.latency_ms else ""
        mark = "[bold]best[/]" if trial.best is evaluation else f"[dim]{escape(remark(evaluation).strip())}[/]"
        config = escape(describe_config(evaluation.config))
        self._latest.append((str(trial.number), config, status_text(evaluation.status), latency, mark))
        described = f"trial {trial.number}{self._of}"
        self._bar.update(self._task, completed=trial.number, description=described, left=self._left(trial))
        self._live.update(self._view(trial))

    def finals(self, text: str) -> None:
        """One line above the table."""
        self.console.print(text)

    def close(self) -> None:
        """Leave the table as it is."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _left(self, trial: TrialDone) -> str:
        left = self._left_s(trial)
        return f"{trial.seconds:.0f} s, about {left:.0f} s left" if left is not None else f"{trial.seconds:.0f} s"

    def _view(self, trial: TrialDone) -> RenderableType:
        trials = table(">#", "config", "status", ">latency", "", plain=True)
        for row in self._latest:
            trials.add_row(*row)
        best = trial.best
        so_far = f"best {best.latency_ms:.4f} ms: {describe_config(best.config)}" if best else "nothing correct so far"
        ruled_out = left_out_text(self._search) if self._search is not None else "none"
        counts = (
            f"{trial.number - trial.failed} correct, {trial.failed} failed, {ruled_out} ruled out, "
            f"{trial.duplicates} duplicates"
        )
        return Group(trials, Text(so_far, style="bold"), Text(counts), self._bar)


def left_out_text(search: SearchStarted) -> str:
    """'7', or 'some' where they cannot be counted."""
    return "some" if search.ruled_out is None else str(search.ruled_out)


def remark(evaluation: Evaluation) -> str:
    """Return the remark shown next to a trial's time."""
    if evaluation.duplicate_of is not None:
        return f"  (the code of {describe_config(evaluation.duplicate_of)})"
    if evaluation.contention is not None:
        return f"  (other processes used {evaluation.contention:.1f} cores)"
    return f"  {first_line(evaluation.message, 100)}" if evaluation.message else ""
