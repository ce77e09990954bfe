"""Worked examples: one folder each, with a problem, a kernel before and after an optimization, and the lesson.

`examples/<backend>/<name>/` holds problem.py, before.py, after.py and example.toml; `examples/measured.json` holds the
measurements of all of them.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ..core import (
    BOTTLENECKS,
    TECHNIQUES,
    ExampleError,
    Gain,
    KernelError,
    ProblemError,
    PythonKernel,
    TorchProblem,
    WorkedExample,
    backends,
)
from ..core.files import write_whole
from ..core.text import digest_of, wrong_field

SHIPPED = Path(__file__).parent / "examples"
MEASURED = "measured.json"
_SOURCES = ("problem.py", "before.py", "after.py")
_FILES = (*_SOURCES, "example.toml")


class Description(BaseModel):
    """The contents of example.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = Field(min_length=1)
    operation: str = Field(min_length=1)
    bottleneck: str
    techniques: tuple[str, ...] = Field(min_length=1)
    story: str = Field(min_length=1)
    problem: str | None = None
    """Id of a corpus problem, where the example solves one; most have a problem of their own."""

    @field_validator("bottleneck")
    @classmethod
    def _known_bottleneck(cls, value: str) -> str:
        if value not in BOTTLENECKS:
            raise ValueError(f"it is one of {', '.join(BOTTLENECKS)}")
        return value

    @field_validator("techniques")
    @classmethod
    def _known_techniques(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [value for value in values if value not in TECHNIQUES]:
            raise ValueError(f"{', '.join(unknown)} is unknown; the known ones are {', '.join(TECHNIQUES)}")
        if len(set(values)) != len(values):
            raise ValueError("a technique is named twice")
        return values


@dataclass(frozen=True)
class ExampleFolder:
    """An example that can be read from `path`."""

    path: Path
    gain: Gain | None = None
    """The measured gain; None if it was never measured."""

    @property
    def backend(self) -> str:
        """The kernels' language and target as one name, such as 'tilelang_cpu'."""
        return self.path.parent.name

    @property
    def slug(self) -> str:
        """`triton/softmax-online`: backend and name."""
        return f"{self.backend}/{self.path.name}"

    @property
    def digest(self) -> str:
        """Digest of the problem and both kernels as their files are; raises `ExampleError`."""
        return digest_of("\0".join(_text(self.path / name) for name in _SOURCES))

    def read_problem(self) -> TorchProblem:
        """Parse the reference that both kernels are checked against; raises `ExampleError`."""
        path = self.path / "problem.py"
        try:
            return TorchProblem(id=self.slug, name=self.path.name, source=_text(path), path=str(path))
        except ProblemError as error:
            raise ExampleError(f"example {path}: {error}") from None

    def read_kernel(self, which: str) -> PythonKernel:
        """Parse the kernel 'before' or 'after'; raises `ExampleError` when it is not for this backend."""
        path = self.path / f"{which}.py"
        try:
            kernel = PythonKernel.parse(_text(path), name=str(path))
        except KernelError as error:
            raise ExampleError(f"example {error}") from None
        if kernel.backend != self.backend:
            raise ExampleError(
                f"example {path} is a {kernel.backend} kernel; move its folder to {kernel.backend}/, or fix it"
            )
        return kernel

    def read(self) -> WorkedExample:
        """Read the whole example, with its own metrics only.

        Raises `ExampleError`, which names the file that is missing or wrong, and the fix.
        """
        if missing := [name for name in _FILES if not (self.path / name).is_file()]:
            raise ExampleError(f"example {self.path} lacks {', '.join(missing)}; add what is missing or remove it")
        self.read_problem()
        before, after = self.read_kernel("before"), self.read_kernel("after")
        if before.source == after.source:
            raise ExampleError(f"example {self.path}: before.py and after.py are the same; change one of them")
        description = _description(self.path / "example.toml")
        return WorkedExample(
            slug=self.slug,
            title=description.title,
            language=before.language,
            target=before.target,
            operation=description.operation,
            category=description.bottleneck,
            techniques=description.techniques,
            before=before.source,
            after=after.source,
            story=" ".join(description.story.split()),
            problem=description.problem,
            gain=self.gain if self.gain and self.gain.digest in (None, self.digest) else None,
        )


def write_example(
    root: Path, slug: str, sources: Mapping[str, str], description: Description, gain: Gain
) -> ExampleFolder:
    """Write an example and its measured gain below a folder, and return it; the slug is new there.

    `sources` has the texts of problem.py, before.py and after.py by these names. Raises `ExampleError` for an example
    that could not be read, and `ResultsError` where nothing can be written.
    """
    path = root / slug
    gains = dict(read_gains(root / MEASURED))
    if path.exists():
        raise ExampleError(f"there is an example {path} already; choose another `name`")
    # What is written by halves has a name that `list_examples` passes over.
    part = path.with_name(f".{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    for name, text in {**sources, "example.toml": _toml(description)}.items():
        write_whole(part / name, text, "choose another `folder`")
    try:
        ExampleFolder(part).read()
        part.rename(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    folder = ExampleFolder(path)
    gains[slug] = gain.model_copy(update={"digest": folder.digest})
    found = {device: gains[device].model_dump(mode="json", exclude_unset=True) for device in sorted(gains)}
    write_whole(root / MEASURED, json.dumps(found, indent=1) + "\n", "choose another `folder`")
    return ExampleFolder(path, gains[slug])


def _toml(description: Description) -> str:
    """Return the fields as TOML, whose strings and lists of strings are those of JSON."""
    said = description.model_dump(mode="json", exclude_none=True)
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in said.items())


def list_examples(root: Path | None = None) -> list[ExampleFolder]:
    """Return all examples of a folder (default: the shipped ones) by backend and name, with their measured gains.

    Raises `ExampleError` when measured.json cannot be read.
    """
    root = root or SHIPPED
    gains = read_gains(root / MEASURED)
    return [ExampleFolder(path, gains.get(ExampleFolder(path).slug)) for path in _folders(root)]


def load_examples(note: Callable[[str], None], root: Path | None = None) -> list[WorkedExample]:
    """Return all examples that can be read; `note` gets one line for each that cannot, with the reason."""
    try:
        folders: Iterable[ExampleFolder] = list_examples(root)
    except ExampleError as error:
        note(f"the examples have no metrics: {error}")
        folders = [ExampleFolder(path) for path in _folders(root or SHIPPED)]
    examples = []
    for folder in folders:
        try:
            examples.append(folder.read())
        except ExampleError as error:
            note(f"left out: {error}")
    return examples


def read_gains(path: Path) -> Mapping[str, Gain]:
    """Return the contents of measured.json by slug; empty without the file. Raises `ExampleError`."""
    if not path.exists():
        return {}
    try:
        records: Any = json.loads(_text(path))
        if not isinstance(records, dict):
            raise ValueError("no object")
        return {slug: Gain.model_validate(record) for slug, record in records.items()}
    except ValidationError as error:
        what = wrong_field(error)
    except (ValueError, RecursionError) as error:
        what = str(error)
    raise ExampleError(f"{path} is corrupt ({what}); measure the examples again, or remove it")


def _folders(root: Path) -> list[Path]:
    found = [path for backend in backends() for path in (root / backend).glob("[!_.]*") if path.is_dir()]
    return sorted(found)


def _description(path: Path) -> Description:
    try:
        return Description.model_validate(tomllib.loads(_text(path)))
    except ValidationError as error:
        raise ExampleError(f"example {path}, {wrong_field(error)}; fix it") from None
    except tomllib.TOMLDecodeError as error:
        raise ExampleError(f"example {path} is not valid TOML: {error}; fix it") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ExampleError(f"cannot read example {path}: {error}; restore it, or remove the example") from None
