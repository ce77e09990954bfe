"""Where text goes, and words that several commands have for results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.status import Status as Spinner

from ..core import Status, Value
from ..core.events import Event, Note, PartDone, Replying, Step, Warned
from ..runtime.words import duration
from .console import console
from .flags import as_flags, option_names


@dataclass(frozen=True)
class Display:
    """How much a command shows, and where: with `json` standard output is for the object alone."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    to_stderr: bool = False
    """Whether text goes to standard error for another reason, such as a list on standard output."""

    def print_json(self, found: Mapping[str, Any]) -> None:
        """Print the object of --json."""
        print(json.dumps(found))


class Screen:
    """Where text goes, and what every command shows of events. Screens of single commands derive from it."""

    def __init__(self, display: Display) -> None:
        self.display = display
        self.console = console(stderr=display.json or display.to_stderr)
        self.errors = console(stderr=True)
        self._steps: dict[str, Spinner | Progress] = {}
        """What is drawn of steps that are not over, by their texts."""

    def emit(self, event: Event) -> None:
        """Show an event, where it is one for people."""
        match event:
            case Note():
                self.note(event.text)
            case Warned():
                self.warn(event.text)
            case PartDone() if event.text:
                self._say_part(event)
            case Step():
                self._draw_step(event) if self.live else self._say_step(event)
            case Replying() if self.live:
                text = f"({event.lane}) the model has written {event.characters} characters"
                self.console.print(f"[dim]  {text}[/]", end="\r")

    @property
    def live(self) -> bool:
        """Whether there is a terminal to draw on."""
        return self.console.is_terminal and not self.display.quiet

    def print(self, *parts: Any) -> None:
        """Print texts with markup, or tables."""
        self.console.print(*parts)

    def print_lines(self, lines: Iterable[Any]) -> None:
        """Print texts as they are, and what rich draws."""
        for line in lines:
            self.console.print(escape(line) if isinstance(line, str) else line)

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
        """One line, on standard error where it failed."""
        left = f"; about {duration(part.left_s)} left" if part.left_s and part.number < part.total else ""
        line = f"[{part.number}/{part.total}] {part.text}{left}"
        if part.failed:
            self.errors.print(escape(line))
        else:
            self.note(line)

    def _say_step(self, step: Step) -> None:
        """One line where a step begins, or for each part of it that is done."""
        if step.over:
            return
        if step.total is None:
            self.note(step.text)
        elif step.done:
            self.note(f"{step.text} {step.done}/{step.total}: {step.name}")

    def _draw_step(self, step: Step) -> None:
        """A spinner, or a bar where the step has parts, until it is over."""
        drawn = self._steps.get(step.text)
        if step.over:
            if drawn is not None:
                self._steps.pop(step.text).stop()
        elif drawn is None and step.total is None:
            self._steps[step.text] = spinner = self.console.status(escape(step.text))
            spinner.start()
        elif drawn is None:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._steps[step.text] = bar = Progress(*columns, console=self.console, transient=True)
            bar.add_task(step.text, total=step.total)
            bar.start()
        elif isinstance(drawn, Progress):
            drawn.update(drawn.task_ids[0], completed=step.done, description=f"{step.text} {step.name}")


def status_text(status: Status) -> str:
    """A status in its colour: green for what is proven, yellow for what is not, red for a failure."""
    color = {Status.OK: "green", Status.UNPROVEN: "yellow"}.get(status, "red")
    return f"[{color}]{status}[/]"


def describe_config(config: Mapping[str, Value]) -> str:
    """'BLOCK_M=32, THREADS=2'; long texts such as compiler flags are cut."""
    parts = []
    for name, value in config.items():
        text = str(value)
        parts.append(f"{name}={text if len(text) <= 24 else text[:10] + '...' + text[-11:]}")
    return ", ".join(parts) or "as it stands"


def shown(text: str) -> str:
    """A text of another layer, with the options that it names as flags."""
    return escape(as_flags(text, option_names()))
