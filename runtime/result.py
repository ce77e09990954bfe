"""Results of commands: one object for Python, `--json` and MCP, whose schema is the model's.

Functions below them describe figures for several results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema, computed_field
from pydantic_core import core_schema
from rich.table import Table

from ..core import Evaluation, Kernel, Metrics, Status, Value
from ..core.baselines import REMEMBERED, against_text
from ..core.evaluation import CLEAN
from .jobs import Job

T = TypeVar("T")
ForPython = Annotated[T, GetPydanticSchema(lambda source, handler: core_schema.any_schema()), Field(exclude=True)]
"""A field of any type that only Python gets: it is in no JSON and no schema."""
EXPLAIN = "call explain_error for the reason and the lines around it, fix that, and evaluate again"
"""The next step of an agent with a wrong kernel."""

if TYPE_CHECKING:
    computed = property
else:
    computed = computed_field
"""A property that the JSON has too."""


class Result(BaseModel):
    """The base of all results.

    `--json` prints fields and computed fields. Fields for Python only are marked `ForPython`.
    """

    model_config = ConfigDict(
        frozen=True, arbitrary_types_allowed=True, use_attribute_docstrings=True, ser_json_inf_nan="constants"
    )

    absent_if_empty: ClassVar[tuple[str, ...]] = ()
    """Keys that the JSON omits if the value is None or an empty text, list or mapping."""
    inlined: ClassVar[tuple[str, ...]] = ()
    """Fields whose keys the JSON has in their place; in Python they are also attributes of the result."""

    if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name as an attribute

        def __getattr__(self, name: str) -> Any:
            for field in () if name.startswith("_") else type(self).inlined:
                inner = getattr(self, field)
                if isinstance(inner, Mapping) and name in inner:
                    return inner[name]
                if hasattr(inner, name):
                    return getattr(inner, name)
            return super().__getattr__(name)

    @property
    def exit_code(self) -> int:
        """Exit code of the command line: 0 for success."""
        return 0

    @property
    def failure(self) -> str:
        """The failure, in one line with rich's markup for standard error; '' if there is a result to print."""
        return ""

    @property
    def warnings(self) -> Sequence[str]:
        """Remarks on unreliable figures, for standard error."""
        return ()

    @property
    def log(self) -> str:
        """Details of a failure for `--verbose`."""
        return ""

    @property
    def doubts(self) -> Sequence[str]:
        """Remarks on unreliable figures or an unreliable verdict, for an agent, which sees no lines."""
        return self.warnings

    @property
    def next_step(self) -> str:
        """The next step of an agent. Results without one do not define it."""
        return ""

    @property
    def failed_kernel(self) -> tuple[Kernel, Evaluation] | None:
        """A failed kernel and its evaluation, which `explain_error` explains to an agent."""
        return None

    def to_json(self) -> dict[str, Any]:
        """The result as plain data."""
        found: dict[str, Any] = {}
        for name, value in self.model_dump(mode="json", by_alias=True).items():
            if name in self.inlined:
                found |= {key: item for key, item in (value or {}).items() if key != "kind"}  # of records
            elif name not in self.absent_if_empty or value not in (None, "", [], {}):
                found[name] = value
        return found

    def lines(self) -> Iterable[Any]:
        """Yield what a terminal prints: strings, which are printed unchanged, or objects of rich."""
        return [f"{name}: {value}" for name, value in self.to_json().items()]


class JobResult(Result):
    """The base of results of a kernel with its problem."""

    job: ForPython[Job]

    @computed
    def problem(self) -> str:
        """Id of the kernel's problem."""
        return self.job.problem.id

    @computed
    def workload(self) -> str:
        """The workload at which the kernel was checked and timed."""
        return self.job.problem.workload


class EvaluationResult(Result):
    """The base of results of one evaluation, whose figures are the result's own, in Python as in JSON."""

    evaluation: ForPython[Evaluation | None] = None
    """With samples and log; None if nothing was evaluated."""

    @computed
    def status(self) -> Status | None:
        """ok, or the step that failed: then nothing was measured."""
        return self.evaluation.status if self.evaluation else None

    @computed
    def message(self) -> str:
        """The failure."""
        return self.evaluation.message if self.evaluation else ""

    @property
    def latency_ms(self) -> float | None:
        """Milliseconds of one call, the median; None if it was not timed."""
        return self.evaluation.latency_ms if self.evaluation else None

    @property
    def speedup(self) -> float | None:
        """Over the reference, of the medians; None if it was not timed."""
        return self.evaluation.speedup.ratio if self.evaluation and self.evaluation.speedup else None

    @property
    def correct(self) -> bool:
        """Whether the kernel computes what the reference does."""
        return self.evaluation is None or self.evaluation.ok

    @property
    def exit_code(self) -> int:
        """1 if the kernel is not correct."""
        return 0 if self.correct else 1

    @property
    def doubts(self) -> list[str]:
        """Remarks on unreliable figures or an unreliable verdict."""
        return doubts_of(self.evaluation) if self.evaluation else []


def says_what_is_next(result: type[Result]) -> bool:
    """Return whether results of a class have warnings and a next step for an agent."""
    return result.next_step is not Result.next_step


def workload_lines(rows: Mapping[str, Metrics], start: Mapping[str, Metrics]) -> list[str]:
    """Return a line for each workload of a kernel that was judged at several, with the start's times if known."""
    lines = []
    for name, row in rows.items():
        before = start[name].latency_ms if name in start else None
        text = f"  {name}: {row.status}"
        if row.latency_ms is not None:
            text = f"  {name}: {f'{before:.4g} ms -> ' if before else ''}{row.latency_ms:.4g} ms"
            text += f", {before / row.latency_ms:.2f} times as fast" if before else ""
            text += f"; {row.speedup:.3f}x against the reference" if row.speedup else ""
        lines.append(text)
    return lines


def beside_reference(evaluation: Evaluation) -> str:
    """Describe all other baselines, ', 1.2x [1.1, 1.3] against PyTorch's defaults (0.893 ms)', and the time of packing
    weights.
    """
    text = ""
    for name, baseline in evaluation.baselines.items():
        remembered = ", by an earlier run's ratio" if baseline.method.endswith(REMEMBERED) else ""
        against = f"{against_text(name, evaluation.precision)} ({baseline.median_ms:.3g} ms{remembered})"
        text += f", {evaluation.speedup_against(name)} against {against}"
    if evaluation.packing is not None:
        text += f", packing {evaluation.packing.median_ms:.2g} ms once"
    return text


def library_line(evaluation: Evaluation) -> str | None:
    """Return 'torch's library computes mm, convolution', or None."""
    return f"torch's library computes {', '.join(evaluation.library)}" if evaluation.library else None


def sanitizer_line(evaluation: Evaluation, all_of_it: bool = False) -> str | None:
    """'compute-sanitizer: memcheck, initcheck clean; racecheck not finished: ...', or None.

    Clean results are described only with `all_of_it`.
    """
    results: dict[str, list[str]] = {}
    for tool, said in evaluation.sanitizer.items():
        results.setdefault(said, []).append(tool)
    if not results or (results.keys() == {CLEAN} and not all_of_it):
        return None
    return "compute-sanitizer: " + "; ".join(f"{', '.join(tools)} {said}" for said, tools in results.items())


def busy(cores: float) -> str:
    """Return the warning for a measurement beside other processes."""
    return (
        f"other processes used {cores:.1f} cores while this was timed, so its speedup is unreliable; "
        "run it again on a quiet machine"
    )


def doubts_of(evaluation: Evaluation) -> list[str]:
    """Return remarks on unreliable figures or an unreliable verdict. Unproven kernels have a status of their own."""
    found = []
    checked, replay = evaluation.correctness, evaluation.replay
    if checked is not None and checked.trivial_outputs:
        found.append(f"{' and '.join(checked.trivial_outputs)} would have passed too, so this proves little")
    if checked is not None and checked.deterministic is False:
        found.append("two calls on the same inputs returned different results")
    if evaluation.shape_specialised and evaluation.second_workload is not None:
        other = evaluation.second_workload
        sizes = ", ".join(f"{name}={value}" for name, value in other.sizes.items())
        found.append(f"shape-specialised: {other.status} at {sizes}")
    if replay is not None and replay.accepted:
        found.append(f"accepted, though {replay.why_not}")
    if evaluation.contention is not None:
        found.append(busy(evaluation.contention))
    return found


LONGEST_CONFIG = 72
"""Maximum length of a config in a line of progress; files have the whole config."""


def shortened(text: str, length: int = LONGEST_CONFIG) -> str:
    """Return a text of at most `length` characters, cut at its end."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def duration(seconds: float) -> str:
    """'40 s' or '3 min'."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def table(*columns: str, title: str | None = None, plain: bool = False) -> Table:
    """Return a table without rows. Columns that begin with '>' are aligned to the right; a plain one has no lines."""
    lines: dict[str, Any] = {"box": None, "pad_edge": False} if plain else {}
    made = Table(title=title, title_justify="left", **lines)
    for column in columns:
        made.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    return made


def file_lines(**files: Path | None) -> Iterator[str]:
    """Yield a line for each file that is not None: 'tuning spec: ...' for `tuning_spec`."""
    yield from (f"{name.replace('_', ' ')}: {path}" for name, path in files.items() if path is not None)


def status_text(status: Status) -> str:
    """Return a status in colour: green if proven, yellow if unproven or not measured, red for a failure."""
    color = {Status.OK: "green", Status.UNPROVEN: "yellow", Status.NOT_MEASURED: "yellow"}.get(status, "red")
    return f"[{color}]{status}[/]"


def describe_config(config: Mapping[str, Value]) -> str:
    """'BLOCK_M=32, THREADS=2'; long texts such as compiler flags are cut."""
    parts = []
    for name, value in config.items():
        text = str(value)
        parts.append(f"{name}={text if len(text) <= 24 else text[:10] + '...' + text[-11:]}")
    return ", ".join(parts) or "unmodified"
