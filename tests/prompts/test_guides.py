"""The guides say what the installed versions accept: every snippet is compiled, or run where it can be."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from kernelwright.core import OptionError, Target
from kernelwright.core.languages import TILELANG, TRITON
from kernelwright.prompts import guide_for, guides, section, sections

GUIDES = ["triton", "tilelang", "tilelang_cpu"]
MODES = {"triton": ["triton-cuda", "triton-run"], "tilelang": ["tilelang-cuda"], "tilelang_cpu": ["tilelang-cpu"]}
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOLDER = Path(guides.__file__).parent / "guides"


@dataclass(frozen=True)
class Snippet:
    """A fenced block of a guide."""

    guide: str
    title: str
    number: int
    kind: str
    text: str

    @property
    def name(self) -> str:
        """A file name."""
        return re.sub(r"\W+", "_", f"{self.guide}-{self.title}-{self.number}").lower()


def snippets(guide: str) -> list[Snippet]:
    """The Python blocks of a guide's sections."""
    found = []
    for title, text in sections(guide).items():
        blocks = [block for block in FENCE.finditer(text) if block[1] == "python"]
        found += [Snippet(guide, title, i, block[2].strip(), block[3]) for i, block in enumerate(blocks)]
    return found


def imports(guide: str) -> str:
    """What a guide says that all of its snippets assume."""
    block = FENCE.search((FOLDER / f"{guide}.md").read_text())
    assert block is not None
    return block[3]


def applies(snippet: Snippet, mode: str) -> bool:
    """The interpreter takes what the compiler refuses, and compiles nothing."""
    return mode != "triton-run" or snippet.kind == ""


CASES = [
    pytest.param(snippet, mode, id=f"{mode}-{snippet.title}-{snippet.number}")
    for guide in GUIDES
    for mode in MODES[guide]
    for snippet in snippets(guide)
    if applies(snippet, mode)
]


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str | None]]:
    """By mode and snippet, the error that it ends with; all modes at the same time."""
    script = Path(__file__).with_name("run_snippets.py")
    tasks: dict[str, list[str]] = {}
    for mode, guide in {mode: guide for guide, modes in MODES.items() for mode in modes}.items():
        folder = tmp_path_factory.mktemp(mode)
        tasks[mode] = [mode, str(folder / "errors.json")]
        for snippet in (candidate for candidate in snippets(guide) if applies(candidate, mode)):
            path = folder / f"{snippet.name}.py"
            head = "# compiled\n" if snippet.kind == "compiled" else ""
            path.write_text(f"{head}{imports(guide)}\n\n{snippet.text}")
            tasks[mode].append(str(path))
    # The interpreter's setting is Triton's while it is imported, so that it cannot share a process with the others.
    alone = "triton-run"
    together = [word for mode, task in tasks.items() if mode != alone for word in ("--", *task)][1:]
    # Empty caches: what an earlier run compiled says nothing about this one.
    caches = tmp_path_factory.mktemp("caches")
    fresh = {"TRITON_CACHE_DIR": str(caches / "triton"), "TILELANG_CACHE_DIR": str(caches / "tilelang")}
    running = [
        subprocess.Popen(
            [sys.executable, str(script), *arguments],
            env=os.environ | fresh,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for arguments in (tasks[alone], together)
    ]
    for process in running:
        log, _ = process.communicate(timeout=250)
        assert process.returncode == 0, log[-3000:]
    return {
        mode: {Path(path).stem: error for path, error in json.loads(Path(errors).read_text()).items()}
        for mode, errors, *_ in tasks.values()
    }


@pytest.mark.parametrize(("snippet", "mode"), CASES)
def test_snippets_do_what_the_guide_says(snippet: Snippet, mode: str, errors: dict[str, dict[str, str | None]]) -> None:
    error = errors[mode][snippet.name]
    if snippet.kind == "refused":
        expected = re.match(r"# refused: (.+)", snippet.text)
        assert expected is not None, "say which error is expected"
        assert error is not None, "this is accepted"
        assert expected[1] in error
    else:
        assert error is None, error


@pytest.mark.parametrize("guide", GUIDES)
def test_sections_are_short_and_their_blocks_marked(guide: str) -> None:
    found = sections(guide)
    assert len(found) >= 10
    for title, text in found.items():
        assert text.startswith(f"## {title}\n\n")
        kinds = [(language, kind.strip()) for language, kind, _ in FENCE.findall(text)]
        assert set(kinds) <= {("python", ""), ("python", "refused"), ("python", "compiled"), ("text", "")}, title
        assert len(text.splitlines()) <= 40, title
        assert all(len(line) <= 120 for line in text.splitlines()), title


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_refers_only_to_sections_that_it_has(guide: str) -> None:
    for text in sections(guide).values():
        assert all(title in sections(guide) for title in re.findall(r"see ([A-Z][\w -]+?)\.", text))


@pytest.mark.parametrize(
    ("guide", "asked", "title"),
    [
        ("triton", "Tensor descriptors", "Tensor descriptors"),
        ("triton", "tensor descriptor", "Tensor descriptors"),
        ("triton", "pipelinning", "Pipelining"),
        ("triton", "tensor cores", "Tensor cores on Hopper"),
        ("tilelang", "T.copy", "T.copy"),
        ("tilelang", "copy", "T.copy"),
        ("tilelang", "T.gemm", "Error: T.gemm and threads"),
        ("tilelang", "REDUCTION", "Reductions"),
        ("tilelang_cpu", "threading", "Threads"),
    ],
)
def test_the_nearest_title_is_found(guide: str, asked: str, title: str) -> None:
    assert section(guide, asked) == sections(guide)[title]


@pytest.mark.parametrize("asked", ["", "  ", "quantum teleportation"])
def test_an_unknown_title_is_answered_with_all_titles(asked: str) -> None:
    with pytest.raises(OptionError, match=r"its sections: Kernel file, .*, Threads, "):
        section("tilelang_cpu", asked)


@pytest.mark.parametrize("guide", ["", "cuda", "../contract"])
def test_an_unknown_guide_is_refused(guide: str) -> None:
    with pytest.raises(OptionError, match="there are tilelang_cpu, tilelang, triton"):
        sections(guide)


def test_each_kind_of_kernel_has_its_guide() -> None:
    assert guide_for(TRITON, Target.CUDA) == "triton"
    assert guide_for(TILELANG, Target.CUDA) == "tilelang"
    assert guide_for(TILELANG, Target.CPU) == "tilelang_cpu"
    with pytest.raises(OptionError, match="no Triton for cpu; there are tilelang for cpu"):
        guide_for(TRITON, Target.CPU)


def test_every_guide_has_its_file_and_no_other_is_there() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(GUIDES)
