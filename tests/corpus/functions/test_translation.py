"""A user's function as a kernel file and a problem: the autotuner's configs, inputs as a function and as a table."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import JointProblem, KernelError, KernelwrightError, OptionError
from kernelwright.core.space_inference import declared_space
from kernelwright.corpus.functions.table import read_table
from kernelwright.corpus.functions.translation import translate

from ...user_packages import RMS_NORM, SCALED_MM, SWIGLU


def test_configs_are_the_first_candidates_of_the_space() -> None:
    """Those of the block-scaled product come from a function, with one appended: they are evaluated."""
    for package, count in ((SWIGLU, 3), (SCALED_MM, 9)):
        kernel = package.translated().kernel
        space = declared_space(kernel)
        assert space is not None
        assert len(kernel.configs_in(space)) == count
        assert kernel.configs_in(space)[0] == space.default
        assert min(space.parameters[0].values) == 16  # a product takes no smaller tile


def test_a_table_names_workloads_and_the_source_is_self_contained() -> None:
    function = RMS_NORM.translated()
    assert isinstance(function.problem, JointProblem)
    assert list(function.problem.members) == ["M=4", "M=32"]
    assert function.problem.integers["N"] == 512
    for source in (function.kernel.source, function.problem.source):
        assert "rownorm" not in source and "from ." not in source
    assert function.problem.withheld == ("rownorm",)
    assert (
        'configs=[triton.Config({"BLOCK": BLOCK}, num_warps=NUM_WARPS, num_stages=NUM_STAGES)]'
        in function.kernel.source
    )


def test_sizes_of_an_input_function_are_constants_of_the_problem() -> None:
    problem = SWIGLU.translated().problem
    assert problem.at("tokens=8,hidden=32").sizes == {"tokens": 8, "hidden": 32}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('key=["N"]|key=["rows"]', "the key of _rms_norm_kernel names rows, which is no argument of it; these are"),
        ('"BLOCK": block|"TILE": block', "a config of _rms_norm_kernel sets TILE, which is no argument"),
        ("in WARPS|in UNKNOWN", "cannot be evaluated here: NameError: name 'UNKNOWN' is not defined; write"),
        ("eps: float = 1e-6)|**more)", "takes **more; give its arguments names"),
        ("num_warps=warps)|num_warps=warps, pre_hook=print)", "have a pre_hook, which a search cannot carry over"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_package_says_where(tmp_path: Path, change: str, said: str) -> None:
    folder = RMS_NORM.copied(tmp_path)
    path = folder / "rownorm" / "ops" / "rms_norm.py"
    before, after = change.split("|")
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(KernelError) as caught:
        RMS_NORM.translated(folder)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("M: 4\n", "inputs: Dictionary should have at least 1 item"),
        ("M: 4\ninputs: {x: {shape: [N]}}\n", "x uses the axis N, which is not given"),
        ("M: []\ninputs: {x: 1}\n", "the axis M has no extents"),
        ("M: four\ninputs: {x: 1}\n", "axes.M"),
        ("- 1\n", "it is no mapping"),
        ("a: [", "while parsing"),
    ],
)
def test_a_table_that_is_none_names_the_entry(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "in.yaml").write_text(text)
    with pytest.raises(OptionError, match=r"see docs/functions\.md for its form") as caught:
        read_table(tmp_path / "in.yaml")
    assert said in str(caught.value)


def test_a_constant_of_the_package_sets_no_share_that_must_match(tmp_path: Path) -> None:
    folder = SWIGLU.copied(tmp_path)
    ops = folder / "gatedmlp" / "ops.py"
    ops.write_text(ops.read_text().replace(".to(x.dtype)", ".mul(4 * MATCHED).to(x.dtype)") + "\n\nMATCHED = 0.25\n")
    problem = SWIGLU.translated(folder).problem
    assert "= 0.25" in problem.source and problem.tolerances["float16"].matched == 1.0


def test_every_combination_of_extents_is_a_workload(tmp_path: Path) -> None:
    (tmp_path / "in.yaml").write_text(
        "M: [1, 2]\nN: [3, 4]\ninputs:\n  x: {shape: [M, N]}\n"
        "  at: {shape: [M], dtype: int64, below: N}\n  flag: true\n  eps: 1e-6\n"
    )
    table = read_table(tmp_path / "in.yaml")
    assert list(table.workloads()) == ["M=1,N=3", "M=1,N=4", "M=2,N=3", "M=2,N=4"]
    namespace: dict[str, object] = {}
    exec("import torch\n" + table.source() + "\nx, at, flag, eps = get_inputs()", namespace)
    assert (tuple(namespace["x"].shape), namespace["flag"], namespace["eps"]) == ((2, 4), True, 1e-6)  # type: ignore[attr-defined]
    assert int(namespace["at"].max()) < 4  # type: ignore[attr-defined]


def test_a_function_that_returns_nothing_is_judged_by_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text(
        "import triton\nimport torch\ndef double(out, x, *, factor=2.0):\n    def half():\n        return 1\n"
        "    out.copy_(triton.cdiv(4, 2) * x)\n"
        "def inputs(seed):\n    return [torch.zeros(3), torch.ones(3)]\n"
    )
    place = str(tmp_path / "ops.py")
    function = translate(f"{place}::double", f"{place}::double", f"{place}::inputs")
    call = "double(out, x, factor=factor)\n        return tuple(one for one in [out, x, factor] if"
    assert call in function.kernel.source and call in function.problem.source


def test_arguments_by_name_are_asked_for_in_order(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text(
        "import torch\nimport triton\ndef f(x):\n    return triton.cdiv(x, 2)\ndef inputs(seed):\n    return {'x': 1}\n"
    )
    problem = translate(f"{path}::f", f"{path}::f", f"{path}::inputs").problem
    names: dict[str, Any] = {}
    exec(problem.source, names)
    with pytest.raises(TypeError, match="inputs returns a dict; return the arguments in order, as a list"):
        names["get_inputs"]()


def test_triton_that_a_module_of_the_package_imports_is_triton(tmp_path: Path) -> None:
    """As packages do that also run without it; a second module imports it plainly."""
    package = tmp_path / "pkg"
    package.mkdir()
    files = {
        "__init__": "",
        "compat": "if HAS:\n    import triton\n    import triton.language as tl\nelse:\n    triton = tl = None\n",
        "grid": "import triton\ndef grid(n):\n    return (triton.cdiv(n, 16),)\n",
        "ops": "import torch\nfrom .compat import tl, triton\nfrom .grid import grid\n"
        "@triton.autotune([triton.Config({'B': b}) for b in (16, 32)], key=['n'])\n@triton.jit\n"
        "def kernel(x, n, B: tl.constexpr):\n    pass\n"
        "def f(x):\n    kernel[grid(4)](x, 4)\n    return x\ndef inputs(seed):\n    return [1]\n",
    }
    files["compat"] = f"HAS = True\n{files['compat']}"
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    path = package / "ops.py"
    function = translate(f"{path}::f", f"{path}::f", f"{path}::inputs")
    assert [one.kernel for one in function.kernels] == ["kernel"]
    assert [dict(one) for one in function.kernel.declared_configs][1]["B"] == 32
    (tmp_path / "flat.py").write_text(function.kernel.source)
    runpy.run_path(str(tmp_path / "flat.py"))


def test_what_is_missing_is_asked_for(tmp_path: Path) -> None:
    function, reference, inputs = RMS_NORM.at(RMS_NORM.copied(tmp_path))
    with pytest.raises(OptionError, match=r"`inputs` bench\.py names no function; write it as bench\.py::inputs"):
        translate(function, reference, "bench.py")
    with pytest.raises(OptionError, match=r"`inputs`: there is no file shapes\.yaml"):
        translate(function, reference, "shapes.yaml")
    with pytest.raises(OptionError, match="a function needs `inputs`"):
        translate(function, reference, None)
    with pytest.raises(KernelwrightError, match="is a kernel; name the function that launches it"):
        translate(function.replace("::rms_norm", "::_rms_norm_kernel"), reference, inputs)
