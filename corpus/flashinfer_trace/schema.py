"""The records of a dataset besides the Definition: a Workload says at which sizes and on which inputs, a Solution how,
and a Trace the outcome. Impossible records are refused when they are built.
"""

from __future__ import annotations

import math
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictBool, StrictFloat, StrictInt, field_validator, model_validator

from . import sol_execbench
from .record import Count, Record, Text
from .sol_execbench import CustomInput, ToleranceSpec

Language = Literal["python", "triton", "cpp", "cuda", "tilelang"]
Status = Literal[
    "PASSED", "INCORRECT_SHAPE", "INCORRECT_NUMERICAL", "INCORRECT_DTYPE", "RUNTIME_ERROR", "COMPILE_ERROR", "TIMEOUT",
    "INVALID_REFERENCE", "REWARD_HACK",
]  # fmt: skip
"""The last two are SOL-ExecBench's."""


class RandomInput(Record):
    """An input that is drawn."""

    type: Literal["random"]


class ScalarInput(Record):
    """A Python number."""

    type: Literal["scalar"]
    value: StrictBool | StrictInt | StrictFloat


class SafetensorsInput(Record):
    """A tensor of a file; a relative path begins at the dataset's root."""

    type: Literal["safetensors"]
    path: Text
    tensor_key: Text

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        return _without_parents(path)


Input = Annotated[RandomInput | ScalarInput | SafetensorsInput | CustomInput, Field(discriminator="type")]


class Workload(Record):
    """Extents of the var axes, and where each input comes from."""

    axes: dict[Text, Count]
    inputs: dict[Text, Input]
    uuid: Text
    tolerance: ToleranceSpec | None = None
    """In SOL-ExecBench only."""

    @model_validator(mode="after")
    def _custom_or_not(self) -> Self:
        kinds = {isinstance(item, CustomInput) for item in self.inputs.values()}
        if len(kinds) > 1:
            raise ValueError("inputs: either all are custom, or none")
        return self


class SourceFile(Record):
    """One file of a Solution."""

    path: Text
    content: Text

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        if PurePosixPath(path).is_absolute():
            raise ValueError(f"{path} is absolute; give a path within the Solution")
        return _without_parents(path)


class BuildSpec(Record):
    """How a Solution is built and called."""

    language: Language | None = None
    languages: tuple[sol_execbench.Language, ...] | None = Field(default=None, min_length=1)
    """In SOL-ExecBench, which has no `language`."""
    target_hardware: tuple[Text, ...] = Field(min_length=1)
    entry_point: Text
    dependencies: tuple[Text, ...] = ()
    destination_passing_style: bool = True
    """Whether the outputs are allocated by the caller and passed after the inputs."""
    binding: Text | None = None

    @field_validator("entry_point")
    @classmethod
    def _names_a_function(cls, entry: str) -> str:
        file, separator, function = entry.partition("::")
        if not (file and separator and function) or "::" in function:
            raise ValueError(f"{entry!r} is not FILE::FUNCTION")
        return entry

    @model_validator(mode="after")
    def _one_form_of_language(self) -> Self:
        if (self.language is None) == (self.languages is None):
            raise ValueError("language: give it, or in SOL-ExecBench languages")
        return self

    @property
    def file(self) -> str:
        """The path of the entry point's file."""
        return self.entry_point.partition("::")[0]

    @property
    def function(self) -> str:
        """The name of the entry point."""
        return self.entry_point.partition("::")[2]


class Solution(Record):
    """An implementation of a Definition."""

    name: Text
    definition: Text
    author: Text
    spec: BuildSpec
    sources: tuple[SourceFile, ...] = Field(min_length=1)
    description: str | None = None

    @model_validator(mode="after")
    def _files_fit(self) -> Self:
        paths = [source.path for source in self.sources]
        if twice := [path for path in paths if paths.count(path) > 1]:
            raise ValueError(f"sources: {twice[0]} stands there twice")
        if self.spec.file not in paths:
            raise ValueError(f"spec.entry_point: sources has no file {self.spec.file}")
        return self


class Correctness(Record):
    """The errors of a Solution's outputs; NaN if an error was not measured."""

    max_relative_error: float = 0.0
    max_absolute_error: float = 0.0
    extra: dict[str, Any] | None = None

    @field_validator("max_relative_error", "max_absolute_error")
    @classmethod
    def _no_less_than_zero(cls, value: float) -> float:
        if not math.isnan(value) and value < 0:
            raise ValueError("an error is not negative")
        return value


class Performance(Record):
    """Times of one call in milliseconds."""

    latency_ms: float = Field(default=0.0, ge=0)
    reference_latency_ms: float = Field(default=0.0, ge=0)
    speedup_factor: float = Field(default=0.0, ge=0)


class Environment(Record):
    """The device and the versions."""

    hardware: Text
    libs: dict[str, str] = Field(default_factory=dict)


class TraceEvaluation(Record):
    """Result of a Solution on a Workload; errors and times exist only where the status allows them."""

    status: Status
    environment: Environment
    timestamp: Text
    log: str = ""
    correctness: Correctness | None = None
    performance: Performance | None = None

    @model_validator(mode="after")
    def _as_the_status_says(self) -> Self:
        compared, timed = self.status in ("PASSED", "INCORRECT_NUMERICAL"), self.status == "PASSED"
        for name, needed in (("correctness", compared), ("performance", timed)):
            if (getattr(self, name) is not None) != needed:
                raise ValueError(f"{name}: status {self.status} {'needs it' if needed else 'has none'}")
        return self


class Trace(Record):
    """A Workload of a Definition, and in a file of traces what came of a Solution on it."""

    definition: Text
    workload: Workload
    solution: Text | None = None
    evaluation: TraceEvaluation | None = None

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.solution is None) != (self.evaluation is None):
            raise ValueError("solution and evaluation: give both, or none for a Workload alone")
        return self


def _without_parents(path: str) -> str:
    if ".." in PurePosixPath(path).parts:
        raise ValueError(f"{path} leaves its folder; write it without ..")
    return path
