"""What a journal holds, one record a line; docs/history.md lists the kinds and their fields.

The names on disk are those of the first journals: where a field's name says something else in Python, its alias is the
name on disk. A record that an older version wrote lacks fields, which then have their defaults; what a newer version
adds is passed over.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, TypeAdapter, ValidationError, model_serializer

from .baselines import STRICT, BesideCompile, Precision
from .errors import JournalError
from .evaluation import Evaluation
from .exchange_record import Reply, Request
from .json_lines import JsonObject, Line
from .metrics import Metrics
from .profile import Profile
from .turn_record import TurnRecord

_IDENTITY = ("problem", "reference", "sizes", "kernel", "device", "allow_torch", "graph", "precision", "against")


class RunRecord(Line):
    """What a run is; the first record of its journal."""

    kind: Literal["run"] = "run"
    problem: str = ""
    reference: str = ""
    """Sixteen hexadecimal digits that stand for the problem's source."""
    sizes: str = ""
    """Pairs of name and size, as Python writes them."""
    kernel: str = ""
    """The digest of the kernel to start from."""
    device: str = ""
    allow_torch: str = ""
    graph: str = ""
    precision: Precision = "fp32"
    """How exactly the reference computed; journals of before there was a choice lack it."""
    against: str = STRICT
    """The baseline that the target speedup is against."""
    backend: str = ""
    model: str = "rules"
    """Who proposes: a model, or 'rules'."""

    def changed(self, other: RunRecord) -> list[str]:
        """The names of the fields that must be the same for a run to go on from another's journal, and are not."""
        return [name for name in _IDENTITY if getattr(self, name) != getattr(other, name)]


class PriorRecord(Line):
    """What rules were expected to gain when the run began: a resumed run must try them in the same order."""

    kind: Literal["prior"] = "prior"
    gains: dict[str, dict[str, float]] = Field(default_factory=dict)
    """The expected speedup by kind of kernel ('triton products', 'triton products matmul') and rule."""


class KernelRecord(Line):
    """The source of a kernel, before its first trial."""

    kind: Literal["kernel"] = "kernel"
    digest: str
    source: str


class Trial(Line):
    """An evaluation, what asked for it, and what it cost."""

    kind: Literal["trial"] = "trial"
    origin: str
    """'start', 'turn 2: split-grid', 'final', 'search', 'list'."""
    evaluation: Evaluation
    seconds: float = Field(ge=0)
    """Wall time of the whole evaluation; those that are timed interleaved with each other share theirs equally."""
    at: str = ""
    """When it ended, ISO 8601 in UTC; empty in old journals."""

    @classmethod
    def now(cls, origin: str, evaluation: Evaluation, seconds: float) -> Trial:
        """Return the record of an evaluation that has just ended."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(origin=origin, evaluation=evaluation, seconds=seconds, at=at)

    def to_json(self) -> JsonObject:
        """Without what was not looked at."""
        return self.model_dump(mode="json", exclude_none=True)


class ProfileRecord(Line):
    """What the problem asks of the device."""

    kind: Literal["profile"] = "profile"
    profile: Profile


class FinishedRecord(Line):
    """How a run ended: the object that `optimize --json` prints."""

    kind: Literal["finished"] = "finished"
    problem: str = ""
    device: str = ""
    backend: str = ""
    workload: str = ""
    target_speedup: float
    """The speedup that was wanted."""
    against: str = STRICT
    """The baseline that this speedup is against."""
    precision: Precision = "fp32"
    """How exactly the reference computed."""
    target_reached: bool
    verified: bool
    """Whether the best kernel was found correct and timed again in a fresh process."""
    start: Metrics
    """As it was timed beside the best kernel; in records of before there was `faster`, before the first turn."""
    best: Metrics
    """At the final check."""
    faster: bool | None = None
    """Whether something was found that is faster than what was there, beyond doubt; None in older records."""
    gain: float | None = None
    """How many times as fast as the start the best kernel is, as one run timed both; None where none did."""
    gain_interval: tuple[float, float] | None = None
    """In which the gain lies, as the 95 % intervals of both medians allow."""
    beside_compile: BesideCompile | None = None
    """How the best kernel stands to `torch.compile`, timed beside it at the final check; None where that was not asked
    for."""
    model: str = ""
    """Who proposed; empty in old journals."""
    iterations: int = 0
    turns: int = 0
    tokens: int = 0
    dollars: float = 0.0
    stopped: str
    """Why the loop ended, in words."""
    cut_short: bool = False
    """Whether a budget, or a model that failed, ended it: with more of these it would go on."""
    kernel: str | None = None
    """The file of the best kernel, as the run named it."""
    solution: str | None = None
    """The same kernel in the dataset of a recorded workload; not written elsewhere."""
    patch: str | None = None
    """The result as a change of the user's own files; not written where there is none."""
    history: str | None = None

    def summary(self) -> dict[str, Any]:
        """What --json prints: what the record says, and no defaults in place of what an older one lacks."""
        return self.model_dump(mode="json", exclude={"kind"}, exclude_unset=True)

    @model_serializer(mode="wrap")
    def _without_absent_files(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        absent = ("solution", "patch", "beside_compile", "faster", "gain", "gain_interval")
        return {name: value for name, value in found.items() if name not in absent or value is not None}


class ExchangeRecord(Line):
    """One request to a language model and its reply, or the error in its place."""

    kind: Literal["exchange"] = "exchange"
    number: int
    lane: str
    """'3.0': the third turn, its first expansion; 'check.' and the model's name before the first."""
    purpose: str = ""
    model: str = ""
    digest: str = ""
    """Sixteen hexadecimal digits that stand for the request."""
    request: Request
    reply: Reply | None = None
    """None when there was an error."""
    dollars: float | None = None
    """None where no price is known."""
    error: str = ""
    seconds: float | None = None
    at: str = ""
    """When it ended, ISO 8601 in UTC."""

    @property
    def tokens(self) -> int:
        """Tokens of the request and of the reply; 0 for an error."""
        return self.reply.tokens if self.reply else 0

    @model_serializer(mode="wrap")
    def _reply_or_error(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        absent = ["error"] if not self.error else []
        absent += [name for name in ("reply", "dollars") if self.reply is None and found[name] is None]
        return {name: value for name, value in found.items() if name not in absent}


Record = Annotated[
    RunRecord | PriorRecord | KernelRecord | Trial | TurnRecord | ProfileRecord | FinishedRecord | ExchangeRecord,
    Field(discriminator="kind"),
]
"""A record of a journal, by its kind."""

_record: TypeAdapter[Record] = TypeAdapter(Record)
_OF_NO_KIND = {"union_tag_invalid", "union_tag_not_found"}


def parse_record(said: JsonObject, path: Path, line: int) -> Record | None:
    """The record in one line of a journal; None for a kind that this version does not know.

    `JournalError` names `path`, the line and what is wrong with it.
    """
    try:
        return _record.validate_python(said, extra="ignore")
    except ValidationError as error:
        first = error.errors()[0]
    if first["type"] in _OF_NO_KIND:
        return None
    kind, *place = map(str, first["loc"])
    where = ".".join(place) or "its whole"
    raise JournalError(
        f"{path}, line {line} is no valid {kind} record: {where}: {first['msg']}; fix or remove that line"
    )
