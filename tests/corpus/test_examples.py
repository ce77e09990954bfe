"""The worked examples: shipped ones are complete, corrupt ones are reported."""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from kernelwright.core import ExampleError, Kernel, Target, backends
from kernelwright.core.space_inference import declared_space
from kernelwright.corpus import ExampleFolder, list_examples, load_examples
from kernelwright.corpus.examples import MEASURED, SHIPPED

FOLDERS = list_examples()
GAIN = {"before_ms": 2.0, "after_ms": 1.0, "speedup": 2.0, "low": 1.9, "high": 2.1, "device": "NVIDIA H200"}
ONE = "triton/softmax-online"

by_slug = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.slug)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A corpus of one example."""
    shutil.copytree(SHIPPED / ONE, tmp_path / ONE, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_there_are_enough_for_each_backend() -> None:
    count = {backend: sum(folder.backend == backend for folder in FOLDERS) for backend in backends()}
    assert len(FOLDERS) >= 24
    assert count["triton"] >= 10 and count["tilelang"] >= 10 and count["tilelang_cpu"] >= 3


@by_slug
def test_an_example_is_whole(folder: ExampleFolder) -> None:
    example = folder.read()
    assert example.slug == folder.slug and len(example.story.split()) >= 30
    assert (example.target is Target.CPU) == (folder.backend == "tilelang_cpu")
    assert "tiny" in folder.read_problem().workloads
    assert ast.get_docstring(ast.parse(example.after)), "says what changed, why it is faster, when it does not help"


@by_slug
def test_both_kernels_take_what_the_problem_takes(folder: ExampleFolder) -> None:
    def forward(source: str, name: str) -> list[str]:
        model = next(n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == name)
        method = next(n for n in model.body if isinstance(n, ast.FunctionDef) and n.name == "forward")
        return [argument.arg for argument in method.args.args]

    wanted = len(forward(folder.read_problem().source, "Model"))
    for which in ("before", "after"):
        kernel = folder.read_kernel(which)
        assert len(forward(kernel.source, "ModelNew")) == wanted
        assert declared_space(kernel) is None or declared_space(kernel).default is not None


def test_every_example_has_metrics_of_its_own_sources() -> None:
    assert set(json.loads((SHIPPED / MEASURED).read_text())) == {folder.slug for folder in FOLDERS}
    device: dict[str, set[str]] = {"cpu": set(), "cuda": set()}
    for example in load_examples(pytest.fail):
        assert example.gain is not None and example.gain.low <= example.gain.speedup <= example.gain.high
        device[example.target].add(example.gain.device)
    assert device["cuda"] == {"NVIDIA H200", "NVIDIA H100 80GB HBM3"} and not device["cpu"] & device["cuda"]


def test_metrics_come_with_their_example(copy: Path) -> None:
    (copy / MEASURED).write_text(json.dumps({ONE: GAIN}))
    (example,) = load_examples(pytest.fail, copy)
    assert example.gain is not None and str(example.gain) == "2.00x on NVIDIA H200 (2 ms to 1 ms)"


@pytest.mark.parametrize("name", ["problem.py", "before.py", "after.py"])
def test_metrics_of_other_sources_are_not_shown(copy: Path, name: str) -> None:
    (copy / MEASURED).write_text(json.dumps({ONE: {**GAIN, "digest": ExampleFolder(copy / ONE).digest}}))
    (example,) = load_examples(pytest.fail, copy)
    assert example.gain is not None
    path = copy / ONE / name
    path.write_text(path.read_text() + "\nCHANGED = 1\n")
    (example,) = load_examples(pytest.fail, copy)
    assert example.gain is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "5",
        json.dumps({ONE: {}}),
        json.dumps({ONE: {**GAIN, "speedup": -1}}),
        json.dumps({ONE: {**GAIN, "digest": "?"}}),
    ],
)
def test_corrupt_metrics_are_reported_and_the_examples_stay(copy: Path, text: str) -> None:
    (copy / MEASURED).write_text(text)
    with pytest.raises(ExampleError, match=r"measured\.json is corrupt.*measure the examples again"):
        list_examples(copy)
    notes: list[str] = []
    (example,) = load_examples(notes.append, copy)
    assert example.gain is None and len(notes) == 1 and MEASURED in notes[0]


def _edit(name: str, change: Callable[[str], str]) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(change((folder / name).read_text()))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no problem": (lambda folder: (folder / "problem.py").unlink(), r"lacks problem\.py; add"),
    "nothing": (lambda folder: [path.unlink() for path in folder.iterdir()], r"lacks problem\.py, before\.py"),
    "no python": (_edit("after.py", lambda text: text + "\n("), r"after\.py is not valid Python"),
    "no kernel": (_edit("before.py", lambda text: "x = 1\n"), r"before\.py defines no class ModelNew"),
    "no reference": (_edit("problem.py", lambda text: "x = 1\n"), r"problem\.py.*lacks Model"),
    "another language": (
        _edit("after.py", lambda text: text.replace("import triton\n", "import tilelang\n")),
        r"after\.py is a tilelang kernel; move",
    ),
    "the same twice": (
        lambda folder: shutil.copy(folder / "before.py", folder / "after.py"),
        "before.py and after.py are the same",
    ),
    "no toml": (_edit("example.toml", lambda text: text + "\n= ="), r"example\.toml is not valid TOML"),
    "no title": (_edit("example.toml", lambda text: text.replace("title", "titel")), r"example\.toml, title"),
    "unknown technique": (
        _edit("example.toml", lambda text: text.replace("online-reduction", "magic")),
        r"techniques: .*magic is unknown; the known ones are shared-memory",
    ),
    "unknown bottleneck": (
        _edit("example.toml", lambda text: text.replace('"memory"', '"luck"')),
        r"bottleneck: .*memory, compute",
    ),
    "bytes": (lambda folder: (folder / "before.py").write_bytes(b"\xff\xfe"), r"cannot read example .*before\.py"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_corrupt_example_is_reported_and_left_out(copy: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(copy / ONE)
    with pytest.raises(ExampleError, match=message) as caught:
        ExampleFolder(copy / ONE).read()
    assert "\n" not in str(caught.value)
    notes: list[str] = []
    assert load_examples(notes.append, copy) == []
    assert len(notes) == 1 and ONE in notes[0]


def test_other_files_are_no_examples(copy: Path) -> None:
    (copy / "triton" / "__pycache__").mkdir()
    (copy / "notes").mkdir()
    (copy / "triton" / "README.md").write_text("text")
    assert [folder.slug for folder in list_examples(copy)] == [ONE]
    assert list_examples(copy / "nothing") == []


def test_a_kernel_is_a_kernel() -> None:
    assert isinstance(FOLDERS[0].read_kernel("after"), Kernel)
