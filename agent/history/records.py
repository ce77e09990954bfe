"""The parts of a history: the files of a run, trials in time, exchanges without repetition, in text."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import EvaluationSummary, ExchangeRecord, JournalError, Record, Trial, read_journal
from ...core.exchange_record import Message, Reply
from ...core.journal import of
from ..searches import TUNING

_RULE = "=" * 100
_SET_ASIDE = re.compile(r"\.\d+$")
"""At the end of a file's stem: an earlier run, which a later one made room for."""
_PREFIX = "journal_"
LOGS = "multiturn_logs"
"""The folder of journals in a results folder."""


@dataclass(frozen=True)
class RecordedTrial:
    """One evaluation of the run, or of a search that a tool ran, without its samples."""

    origin: str
    """'start', 'turn 2: split-grid', 'search', 'search: final', 'final'."""
    metrics: EvaluationSummary
    seconds: float
    at: str
    """When it ended, ISO 8601; empty in old journals."""
    elapsed_s: float | None = None
    """From the begin of the first trial to the end of this one."""

    @classmethod
    def of(cls, trial: Trial, search: bool) -> RecordedTrial:
        """A trial of the run's journal, or of a search's."""
        origin = trial.origin
        if search:
            origin = "search" if origin == "search" else f"search: {origin}"
        return cls(origin, trial.evaluation.summary(), trial.seconds, trial.at)


@dataclass(frozen=True)
class Exchange:
    """One request to a model, and its reply or error."""

    number: int
    lane: str
    """'3.0': the third turn, its first expansion; 'check.' and the model's name before the first."""
    purpose: str
    model: str
    sent: tuple[Message, ...]
    """The messages that the lane's exchange before had not shown yet."""
    tools: tuple[str, ...]
    """On offer."""
    reply: Reply | None
    """None when there was an error."""
    error: str
    dollars: float
    seconds: float
    at: str

    @property
    def input_tokens(self) -> int:
        """Tokens of the request; 0 without a reply."""
        return (self.reply and self.reply.input_tokens) or 0

    @property
    def output_tokens(self) -> int:
        """Tokens of the reply; 0 without one."""
        return (self.reply and self.reply.output_tokens) or 0

    @property
    def tokens(self) -> int:
        """Tokens of the request and the reply."""
        return self.input_tokens + self.output_tokens


class Conversations:
    """Reads exchanges in order, and finds the messages of each that its lane had not sent before."""

    def __init__(self) -> None:
        self._shown: dict[str, Sequence[Message]] = {}

    def read(self, record: ExchangeRecord) -> Exchange:
        """An exchange of a transcript."""
        sent = (Message(role="system", text=record.request.system or ""), *record.request.messages)
        before = self._shown.get(record.lane, ())
        common = _common(before, sent)
        # The reply before comes back as the assistant's message: it was shown as that reply.
        again = 0 < len(before) == common < len(sent) and sent[common].role == "assistant"
        self._shown[record.lane] = sent
        return Exchange(
            number=record.number,
            lane=record.lane,
            purpose=record.purpose,
            model=record.model,
            sent=tuple(message for message in sent[common + again :] if not message.empty),
            tools=record.request.tools,
            reply=record.reply,
            error=record.error,
            dollars=record.dollars or 0.0,
            seconds=record.seconds or 0.0,
            at=record.at,
        )


def _common(before: Sequence[Message], now: Sequence[Message]) -> int:
    same = 0
    while same < min(len(before), len(now)) and before[same] == now[same]:
        same += 1
    return same


def conversation_text(records: Iterable[Record]) -> str:
    """Return all exchanges of a transcript in order, each with its new messages and the reply."""
    conversations = Conversations()
    exchanges = [conversations.read(record) for record in of(records, ExchangeRecord)]
    return "\n\n".join(part for exchange in exchanges for part in _parts(exchange)) + "\n"


def _parts(exchange: Exchange) -> list[str]:
    tokens = f"{exchange.input_tokens} + {exchange.output_tokens} tokens, " if exchange.reply else ""
    head = (
        f"{exchange.number}. {exchange.purpose} (conversation {exchange.lane}), {exchange.model}, "
        f"{exchange.at}: {tokens}${exchange.dollars:.4f}, {exchange.seconds:.1f} s"
    )
    end = _message("reply", exchange.reply) if exchange.reply else f"--- error\n{exchange.error}"
    return [f"{_RULE}\n{head}\n{_RULE}", *(_message(message.role, message) for message in exchange.sent), end]


def _message(title: str, message: Message | Reply) -> str:
    lines = [f"--- {title}"]
    if message.text:
        lines.append(message.text)
    for call in message.tool_calls:
        arguments = {key: value for key, value in call.arguments.items() if not is_long(value)}
        lines.append(f"{call.name}({json.dumps(arguments, ensure_ascii=False)})")
        lines += [f"  {key}:\n{value}" for key, value in call.arguments.items() if is_long(value)]
    lines += [f"{result.name}: {result.text}" for result in message.tool_results]
    return "\n".join(lines)


def is_long(value: Any) -> bool:
    """Return whether a tool's argument is a text of several lines, such as a kernel."""
    return isinstance(value, str) and "\n" in value


@dataclass(frozen=True)
class RunFiles:
    """The journal of a run, and the files next to it."""

    journal: Path
    transcript: Path | None
    """Exchanges with models; None if there were none."""
    searches: tuple[Path, ...]
    """Journals of the searches that its tools ran."""

    @property
    def all(self) -> tuple[Path, ...]:
        """All files of the run, the journal first."""
        return (self.journal, *([self.transcript] if self.transcript else []), *self.searches)


def run_files(path: Path) -> RunFiles:
    """The files of the run at `path`: a journal, a folder of results, or the folder of their logs.

    `JournalError` when there is no run, or, in a folder, more than one: earlier runs that were set aside have to be
    named, and do not count.
    """
    journal = _only_journal(path) if path.is_dir() else path
    if not journal.is_file():
        raise JournalError(f"there is no {path}; give the journal of a run, or its results folder")
    name, stem = journal.name, journal.stem
    number = found.group() if (found := _SET_ASIDE.search(stem)) else ""
    transcript = journal.with_name(name.replace(_PREFIX, "transcript_", 1))
    searches = journal.parent.glob(f"{glob.escape(stem.removesuffix(number))}{TUNING}*{number}.jsonl")
    return RunFiles(
        journal,
        transcript if transcript != journal and transcript.is_file() else None,
        tuple(sorted(path for path in searches if bool(number) == bool(_SET_ASIDE.search(path.stem)))),
    )


def records_of(path: Path) -> list[Record]:
    """The records of a journal; `JournalError` too when the file cannot be opened."""
    try:
        return read_journal(path)
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}; give the journal of a run") from None


def journals_in(folder: Path) -> list[Path]:
    """Return the journals of runs in a results folder, or in the folder of its logs, also those set aside.

    Journals of searches are not runs.
    """
    places = (folder, folder / LOGS)
    return [path for place in places for path in sorted(place.glob(f"{_PREFIX}*.jsonl")) if TUNING not in path.name]


def runs_in(path: Path, set_aside: bool = False) -> tuple[Path, ...]:
    """The journals of the runs at `path`: itself, or all of a results folder or of the folder of its logs.

    `JournalError` when there are none. Earlier runs that were set aside have to be named, or asked for.
    """
    if not path.is_dir():
        return (path,)
    found = tuple(item for item in journals_in(path) if set_aside or not _SET_ASIDE.search(item.stem))
    if not found:
        raise JournalError(f"{path} holds no journal of a run; give one that 'optimize' wrote, or its results folder")
    return found


def _only_journal(folder: Path) -> Path:
    found = runs_in(folder)
    if len(found) > 1:
        raise JournalError(f"{folder} holds several runs; name the journal of one: {', '.join(map(str, found))}")
    return found[0]
