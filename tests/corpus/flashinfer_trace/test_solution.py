"""Solutions as kernels, and kernels as Solutions."""

from __future__ import annotations

import ast
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import KernelError, PythonKernel
from kernelwright.core.user_package import stands_alone
from kernelwright.corpus.flashinfer_trace.dataset import TraceDataset
from kernelwright.corpus.flashinfer_trace.definition import Definition
from kernelwright.corpus.flashinfer_trace.schema import Solution
from kernelwright.corpus.flashinfer_trace.solution import backend_of, kernel_of, solution_of
from kernelwright.evaluators.workers.user_modules import CandidateModules

from .folders import HERE, definition, solution

DATASET = TraceDataset.read(HERE / "dataset")
DOUBLE = Definition.model_validate(definition())


def source_of(sources: dict[str, str], of: Definition = DOUBLE, **spec: Any) -> str:
    return kernel_of(Solution.model_validate(solution(sources, **spec)), of).source


def namespace(source: str, folder: Path) -> dict[str, Any]:
    """What a kernel's text defines, executed as workers do."""
    path = folder / "kernel.py"
    path.write_text(source)
    with contextlib.chdir(folder):
        return vars(CandidateModules(None).load(f"solution_{folder.name}", path))


@pytest.mark.parametrize("name", [name for name in DATASET.solutions if name != "gemm_cuda"])
def test_a_kernel_comes_back_from_its_solution(name: str) -> None:
    original = DATASET.solutions[name]
    of = DATASET.definitions[original.definition]
    kernel = kernel_of(original, of)
    written = solution_of(kernel, of, "me", "NVIDIA H200")
    assert backend_of(original) == kernel.backend
    assert written.spec.target_hardware == (("cpu",) if "cpu" in kernel.backend else ("NVIDIA_H200",))
    assert not written.spec.destination_passing_style
    entry = ast.parse(written.sources[0].content).body[-1]
    assert isinstance(entry, ast.FunctionDef) and f"kernel.py::{entry.name}" == written.spec.entry_point
    assert [argument.arg for argument in entry.args.args] == list(of.inputs)
    assert kernel_of(Solution.model_validate_json(written.to_json()), of).source == kernel.source.rstrip() + "\n"


def test_what_is_no_kernel_here_has_no_backend() -> None:
    assert backend_of(DATASET.solutions["gemm_cuda"]) is None


def test_outputs_are_allocated_for_destination_passing_style(tmp_path: Path) -> None:
    source = source_of({"main.py": "import triton\n\ndef run(x, y):\n    y.copy_(2 * x)\n"})
    assert "y = torch.empty((x.shape[0],), dtype=torch.float32, device=x.device)\n        run(x, y)" in source
    import torch

    assert namespace(source, tmp_path)["ModelNew"]()(torch.ones(3)).tolist() == [2, 2, 2]


def test_expression_axes_are_computed_from_the_inputs() -> None:
    axes = {
        "n": {"type": "var"},
        "k": {"type": "const", "value": 3},
        "m": {"type": "expr", "expression": "(n + k) / 2"},
    }
    of = Definition.model_validate(definition(axes=axes, outputs={"y": {"shape": ["m", "2"], "dtype": "int8"}}))
    source = source_of({"main.py": "import triton\n\ndef run(x, y): ...\n"}, of)
    assert "torch.empty((int((x.shape[0] + 3) / 2), 2,), dtype=torch.int8" in source
    unknown = definition(axes=axes | {"o": {"type": "var"}}, outputs={"y": {"shape": ["o"], "dtype": "int8"}})
    with pytest.raises(KernelError, match="no input has the axis o of the output y"):
        source_of({"main.py": "import triton\n\ndef run(x, y): ...\n"}, Definition.model_validate(unknown))


def test_several_files_are_one_text(tmp_path: Path) -> None:
    """Relative and absolute imports, aliases, modules as values, and two files that bind the same name."""
    files = {
        "pkg/main.py": (
            "from __future__ import annotations\nimport triton\nfrom .parts import scale as times, SIZE\n"
            "from . import names\nimport pkg.other as other\n\nFACTOR = 1\n\n\n"
            "def run(x):\n    FACTORS = [FACTOR, SIZE]  # kept\n"
            "    return times(x) + names.offset() + other.offset(FACTOR) * len(FACTORS)\n"
        ),
        "pkg/parts.py": "from __future__ import annotations\nimport triton\nfrom .names import FACTOR\nSIZE = 8\n"
        "def scale(x, FACTOR=FACTOR):\n    return x * FACTOR\n",
        "pkg/names.py": "FACTOR = 2\ndef offset():\n    return FACTOR * 10\n",
        "pkg/other.py": "def offset(by):\n    return 100 * by\n",
        "pkg/unused.py": "this is never parsed(",
    }
    del files["pkg/unused.py"]
    source = source_of(files, destination_passing_style=False)
    assert '__file__ = "pkg/main.py"' in source and "# kept" in source and stands_alone(source)
    assert namespace(source, tmp_path)["run"](1) == 2 + 20 + 200


def test_imports_that_hide_what_they_mean_and_side_effects(tmp_path: Path) -> None:
    """Stars, imports in a function, names of libraries that differ, and what a file does when it is imported."""
    files = {
        "main.py": (
            "# Licence of main\nimport triton\nfrom os import sep\nfrom a import *\nimport seen\nfrom impl import run\n"
            "seen.LOG.append('main')\n"
        ),
        "a.py": "# Licence of a\nfrom seen import LOG as log\nfrom re import I as sep\nlog.append(int(sep))\n",
        "seen.py": "LOG = []\n",
        "impl.py": "def run(x):\n    import b\n    from os import sep\n    return [*b.f(x), sep]\n",
        "b.py": "from seen import LOG\n\ndef f(x):\n    return [*LOG, x]\n",
        "triton/unused.py": "this is never parsed(",
    }
    source = source_of(files, destination_passing_style=False)
    assert namespace(source, tmp_path)["run"](1) == [2, "main", 1, "/"]
    assert "# Licence of main\n" in source and "# Licence of a\n" in source


def test_a_file_alone_stays_as_it_is() -> None:
    text = '"""What it is."""\n\nimport triton\n\n\n# kept\nglobals()["two"] = 2\n\n\ndef run(x):\n    return two\n'
    assert source_of({"main.py": text, "notes.md": "no code"}, destination_passing_style=False).startswith(text)


def test_a_class_of_their_own_is_not_taken_for_ours(tmp_path: Path) -> None:
    text = "import triton\n\nclass ModelNew:\n    value = 3\n\ndef run(x):\n    return ModelNew.value\n"
    found = namespace(source_of({"main.py": text}, destination_passing_style=False), tmp_path)
    assert found["ModelNew"]().forward(0) == 3


REFUSED: list[tuple[dict[str, str], dict[str, Any], str]] = [
    ({"k.cu": "x"}, {"language": "cuda"}, "is written in cuda; only Solutions in Triton or TileLang"),
    ({"k.cpp": "x"}, {"language": "cpp"}, "is written in cpp"),
    ({"main.py": "def run(x): ..."}, {"language": "python"}, "is written in python"),
    ({"main.py": "x"}, {"language": None, "languages": ["cute_dsl"]}, "is written in cute_dsl"),
    ({"main.py": "import triton\ndef go(x): ..."}, {}, "spec.entry_point: main.py has no function run"),
    ({"main.py": "import triton\ndef run(x:"}, {}, "cannot read main.py: "),
    (
        {"main.py": "from .parts import f\ndef run(x): ..."},
        {},
        "no file of the module parts; there are main.py",
    ),
    (
        {"main.py": "import a\nfrom os import run", "a.py": "f = 1"},
        {},
        "imports run, and none of the sources defines it",
    ),
    ({"main.py": "def run(x): ..."}, {"destination_passing_style": False}, "imports neither tilelang nor triton"),
]


@pytest.mark.parametrize(("sources", "spec", "message"), REFUSED)
def test_what_cannot_be_a_kernel_says_why(sources: dict[str, str], spec: dict[str, Any], message: str) -> None:
    with pytest.raises(KernelError, match=message) as error:
        source_of(sources, **spec)
    assert "doubled" in str(error.value) and "\n" not in str(error.value)


def test_sol_execbench_lists_languages_and_has_no_tilelang() -> None:
    triton, tilelang = (
        kernel_of(DATASET.solutions[name], DATASET.definitions["rmsnorm_h128"])
        for name in ("rmsnorm_triton", "rmsnorm_tilelang_cpu")
    )
    of = DATASET.definitions["rmsnorm_h128"]
    spec = solution_of(triton, of, "me", "H200", sol=True).spec
    assert (spec.languages, spec.language, spec.target_hardware) == (("triton",), None, ("LOCAL",))
    with pytest.raises(KernelError, match="SOL-ExecBench has no Solutions in TileLang"):
        solution_of(tilelang, of, "me", "H200", sol=True)


RUN = "import triton\n{}\ndef run(x):\n    return {}\n"
STAR = RUN.format("", 6)
ACCEPTED: list[tuple[dict[str, str], object]] = [
    ({"main.py": RUN.format("import a", "a.f(a)"), "a.py": "def f(m):\n    return m.S\n\nS = 2"}, 2),
    ({"k/main.py": RUN.format("from k import size", "size.S"), "k/size.py": "S = 3"}, 3),
    ({"my-k/v1.2.py": RUN.format("from . import a", "a.S"), "my-k/a.py": "S = 4"}, 4),
    ({"main.py": RUN.format("try:\n    from a import S\nexcept ImportError:\n    S = 1", "S"), "a.py": "S = 5"}, 5),
    ({"main.py": "import triton\nfrom p import *", "p/__init__.py": "from .q import run", "p/q.py": STAR}, 6),
    ({"main.py": RUN.format("def f():\n    import p.q\n    return p.q.N", "f()"), "p/q.py": "N = 7"}, 7),
]  # fmt: skip
"""What inlining refused is among them: modules as values, imports that depend on what runs."""


def returning(sources: dict[str, str]) -> PythonKernel:
    return kernel_of(Solution.model_validate(solution(sources, destination_passing_style=False)), DOUBLE)


@pytest.mark.parametrize(("sources", "expected"), ACCEPTED)
def test_files_import_each_other_as_python_does(sources: dict[str, str], expected: object, tmp_path: Path) -> None:
    kernel = returning(sources)
    assert namespace(kernel.source, tmp_path)["ModelNew"]().forward(0) == expected
    written = kernel_of(solution_of(kernel, DOUBLE, "me", "H200"), DOUBLE)
    assert namespace(written.source, tmp_path)["ModelNew"]().forward(0) == expected


def test_two_texts_do_not_meet(tmp_path: Path) -> None:
    """Two configs of one Solution are loaded at once: what either imports late is its own."""
    models = []
    for value in (1, 2):
        (folder := tmp_path / str(value)).mkdir()
        files = {"main.py": "import triton\ndef run(x):\n    import a\n    return a.S\n", "a.py": f"S = {value}\n"}
        models.append(namespace(returning(files).source, folder)["ModelNew"]())
    assert [model.forward(0) for model in models] == [1, 2]


def test_constants_and_imports_of_other_parts_are_written_into_the_files(tmp_path: Path) -> None:
    """A rule sees all parts as one module: it may use in one what another defines."""
    main = RUN.format("from a import f", "f(x) + BLOCK")
    kernel = returning({"main.py": main, "a.py": "def f(x):\n    return math.floor(x)\n"})
    changed = replace(kernel, source="import math\n\nBLOCK = 16\n" + kernel.source)
    assert namespace(changed.source, tmp_path)["ModelNew"]().forward(1.5) == 17
    written = solution_of(changed, DOUBLE, "me", "H200")
    assert "BLOCK = 16\n" in next(item.content for item in written.sources if item.path == "main.py")
    assert namespace(kernel_of(written, DOUBLE).source, tmp_path)["ModelNew"]().forward(1.5) == 17
