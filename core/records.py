"""Records of a journal, one per line. docs/history.md lists the kinds and their fields.

Names on disk are those of the first journals; a field with another name in Python has the name on disk as its alias.
Missing fields of older records have their defaults, and unknown fields of newer records are ignored.
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
_LATER = ("proof", "versions")
"""Fields that older journals do not have: what is not known is not compared."""


class RunRecord(Line):
    """The identity of a run, the first record of its journal."""

    kind: Literal["run"] = "run"
    problem: str = ""
    reference: str = ""
    """Digest of the problem's source, sixteen hexadecimal digits."""
    sizes: str = ""
    """The `repr` of pairs of name and size."""
    kernel: str = ""
    """Digest of the start kernel."""
    device: str = ""
    allow_torch: str = ""
    graph: str = ""
    precision: Precision = "fp32"
    """Precision of the reference; missing in older journals."""
    against: str = STRICT
    """The baseline that the target speedup is against."""
    proof: str = ""
    """How a kernel is proven: 'replayed', 'quick', or 'as it runs' where no replay is required."""
    versions: str = ""
    """Versions of torch and of the kernel's language on this machine, 'torch 2.13.0, triton 3.6.0'."""
    backend: str = ""
    model: str = "rules"
    """The proposer: the name of a model, or 'rules'."""

    def changed(self, other: RunRecord) -> list[str]:
        """Return the names of fields that differ but must be equal for a run to resume from a journal."""
        changed = [name for name in (*_IDENTITY, *_LATER) if getattr(self, name) != getattr(other, name)]
        return [name for name in changed if name in _IDENTITY or (getattr(self, name) and getattr(other, name))]


class PriorRecord(Line):
    """Expected gains of rules when the run started. A resumed run must try rules in the same order."""

    kind: Literal["prior"] = "prior"
    gains: dict[str, dict[str, float]] = Field(default_factory=dict)
    """Expected speedup by kind of kernel ('triton products', 'triton products matmul') and rule."""


class KernelRecord(Line):
    """The source of a kernel, written before its first trial."""

    kind: Literal["kernel"] = "kernel"
    digest: str
    source: str


class Trial(Line):
    """An evaluation with its origin and cost."""

    kind: Literal["trial"] = "trial"
    origin: str
    """'start', 'turn 2: split-grid', 'final', 'search', 'list'."""
    evaluation: Evaluation
    seconds: float = Field(ge=0)
    """Wall time of the evaluation. Evaluations that are timed interleaved share their time equally."""
    at: str = ""
    """End of the evaluation, ISO 8601 in UTC; empty in old journals."""

    @classmethod
    def now(cls, origin: str, evaluation: Evaluation, seconds: float) -> Trial:
        """Return the record of an evaluation that ended now."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(origin=origin, evaluation=evaluation, seconds=seconds, at=at)

    def to_json(self) -> JsonObject:
        """Return the JSON object, without undetermined fields."""
        return self.model_dump(mode="json", exclude_none=True)


class ProfileRecord(Line):
    """The profile of the problem on the device."""

    kind: Literal["profile"] = "profile"
    profile: Profile


class FinishedRecord(Line):
    """The result of a run: the object that `optimize --json` prints."""

    kind: Literal["finished"] = "finished"
    problem: str = ""
    device: str = ""
    backend: str = ""
    workload: str = ""
    target_speedup: float | None
    """The requested speedup; None if the run had no target."""
    against: str = STRICT
    """The baseline of this speedup."""
    precision: Precision = "fp32"
    """Precision of the reference."""
    target_reached: bool | None
    """None without a target."""
    verified: bool
    """Whether the best kernel was checked and timed again in a fresh process."""
    start: Metrics
    """The start kernel, timed with the best kernel; in records without `faster`, before the first turn."""
    best: Metrics
    """The best kernel at the final check."""
    faster: bool | None = None
    """Whether the best kernel is significantly faster than the start; None in older records."""
    gain: float | None = None
    """Speedup of the best kernel over the start, timed in one run; None if they were not timed together."""
    gain_interval: tuple[float, float] | None = None
    """Interval of the gain, from the 95 % intervals of both medians."""
    beside_compile: BesideCompile | None = None
    """Comparison of the best kernel with `torch.compile` at the final check; None if it was not requested."""
    model: str = ""
    """The proposer; empty in old journals."""
    iterations: int = 0
    turns: int = 0
    tokens: int = 0
    dollars: float = 0.0
    stopped: str
    """Reason why the loop ended."""
    cut_short: bool = False
    """Whether a budget or a failed model ended the run, so that it could continue."""
    kernel: str | None = None
    """File of the best kernel, as named by the run."""
    solution: str | None = None
    """File of the same kernel in the dataset of a recorded workload; omitted for other problems."""
    patch: str | None = None
    """Patch of the user's own files; omitted if there is none."""
    history: str | None = None

    def summary(self) -> dict[str, Any]:
        """Return what --json prints: the fields of the record, without defaults for fields that an older one lacks."""
        return self.model_dump(mode="json", exclude={"kind"}, exclude_unset=True)

    @model_serializer(mode="wrap")
    def _without_absent_files(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        absent = ("solution", "patch", "beside_compile", "faster", "gain", "gain_interval")
        return {name: value for name, value in found.items() if name not in absent or value is not None}


class ExchangeRecord(Line):
    """One request to a language model, and its reply or error."""

    kind: Literal["exchange"] = "exchange"
    number: int
    lane: str
    """'3.0' is the first expansion of the third turn. Before the first turn it is 'check.' and the model's name."""
    purpose: str = ""
    model: str = ""
    digest: str = ""
    """Digest of the request, sixteen hexadecimal digits."""
    request: Request
    reply: Reply | None = None
    """None if there was an error."""
    dollars: float | None = None
    """None if the price is unknown."""
    error: str = ""
    seconds: float | None = None
    at: str = ""
    """End of the exchange, ISO 8601 in UTC."""

    @property
    def tokens(self) -> int:
        """Number of tokens in request and reply; 0 for an error."""
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
    """Parse one line of a journal. Return None for an unknown kind.

    Raises `JournalError` with `path`, the line and the reason.
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
        f"{path}, line {line} is not a valid {kind} record: {where}: {first['msg']}; fix or remove that line"
    )
