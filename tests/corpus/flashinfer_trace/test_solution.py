"""Solutions as kernels, and kernels as Solutions."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from kernelwright.core import KernelError
from kernelwright.corpus.flashinfer_trace.dataset import TraceDataset
from kernelwright.corpus.flashinfer_trace.definition import Definition
from kernelwright.corpus.flashinfer_trace.schema import Solution
from kernelwright.corpus.flashinfer_trace.solution import backend_of, kernel_of, solution_of

from .folders import HERE, definition, solution

DATASET = TraceDataset.read(HERE / "dataset")
DOUBLE = Definition.model_validate(definition())


def source_of(sources: dict[str, str], of: Definition = DOUBLE, **spec: Any) -> str:
    return kernel_of(Solution.model_validate(solution(sources, **spec)), of).source


def namespace(source: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(compile(source, "kernel.py", "exec"), found)
    return found


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
    assert [one.arg for one in entry.args.args] == list(of.inputs)
    assert kernel_of(Solution.model_validate_json(written.to_json()), of).source == kernel.source.rstrip() + "\n"


def test_what_is_no_kernel_here_has_no_backend() -> None:
    assert backend_of(DATASET.solutions["gemm_cuda"]) is None


def test_outputs_are_allocated_for_destination_passing_style() -> None:
    source = source_of({"main.py": "import triton\n\ndef run(x, y):\n    y.copy_(2 * x)\n"})
    assert "y = torch.empty((x.shape[0],), dtype=torch.float32, device=x.device)\n        run(x, y)" in source
    import torch

    assert namespace(source)["ModelNew"]()(torch.ones(3)).tolist() == [2, 2, 2]


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


def test_several_files_become_one() -> None:
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
    assert source.startswith("from __future__ import annotations\n") and source.count("__future__") == 1
    assert "# kept" in source and "from ." not in source and "pkg" not in source
    assert namespace(source)["run"](1) == 2 + 20 + 200
    assert namespace(source)["FACTOR"] == 1


def test_imports_that_hide_what_they_mean_and_side_effects() -> None:
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
    assert namespace(source)["run"](1) == [2, "main", 1, "/"]
    assert "# Licence of main\n" in source and "# Licence of a\n" in source and "import triton\n" in source


def test_a_file_alone_stays_as_it_is() -> None:
    text = '"""What it is."""\n\nimport triton\n\n\n# kept\nglobals()["two"] = 2\n\n\ndef run(x):\n    return two\n'
    assert source_of({"main.py": text, "notes.md": "no code"}, destination_passing_style=False).startswith(text)


def test_a_class_of_their_own_is_not_taken_for_ours() -> None:
    text = "import triton\n\nclass ModelNew:\n    value = 3\n\ndef run(x):\n    return ModelNew.value\n"
    found = namespace(source_of({"main.py": text}, destination_passing_style=False))
    assert found["ModelNew"]().forward(0) == 3


REFUSED: list[tuple[dict[str, str], dict[str, Any], str]] = [
    ({"k.cu": "x"}, {"language": "cuda"}, "is written in cuda; only Solutions in Triton or TileLang"),
    ({"k.cpp": "x"}, {"language": "cpp"}, "is written in cpp"),
    ({"main.py": "def run(x): ..."}, {"language": "python"}, "is written in python"),
    ({"main.py": "x"}, {"language": None, "languages": ["cute_dsl"]}, "is written in cute_dsl"),
    ({"main.py": "import triton\ndef go(x): ..."}, {}, "spec.entry_point: main.py has no function run"),
    ({"main.py": "import triton\ndef run(x:"}, {}, "cannot read main.py: Syntax Error"),
    (
        {"main.py": "from .parts import f\ndef run(x): ..."},
        {},
        "no file of the module parts; there are main.py",
    ),
    ({"main.py": "from a import f\ndef run(x): f", "a.py": "g = 1"}, {}, "module a defines no f in its text"),
    (
        {"main.py": "import a\ndef run(x): print(a)", "a.py": "f = 1"},
        {},
        "line 2: the module a is used as a value",
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
