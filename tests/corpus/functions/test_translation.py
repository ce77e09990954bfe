"""A user's function as a kernel file and a problem: the autotuner's configs, inputs as a function and as a table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import JointProblem, KernelwrightError, OptionError
from kernelwright.core.space_inference import declared_space
from kernelwright.core.user_package import CandidateText
from kernelwright.corpus.functions.putting_back import put_back
from kernelwright.corpus.functions.table import read_table
from kernelwright.corpus.functions.translation import translate

from ...user_packages import PACKAGES, RMS_NORM, SCALED_MM, SWIGLU


def test_configs_are_the_first_candidates_of_the_space() -> None:
    """Those of the block-scaled product come from a function, with one appended: they are evaluated."""
    for package, count in ((SWIGLU, 3), (SCALED_MM, 9)):
        kernel = package.translated().kernel
        space = declared_space(kernel)
        assert space is not None
        assert len(kernel.configs_in(space)) == count
        assert kernel.configs_in(space)[0] == space.default
        assert min(space.parameters[0].values) == 16  # a product takes no smaller tile


def test_a_table_names_workloads_and_files_stay_as_they_are() -> None:
    function = RMS_NORM.translated()
    assert isinstance(function.problem, JointProblem)
    assert list(function.problem.members) == ["M=4", "M=32"]
    assert function.problem.integers["N"] == 512
    text = CandidateText.of(function.kernel.source)
    assert list(text.files) == ["rownorm/utils/math.py", "rownorm/ops/rms_norm.py"]
    assert text.files["rownorm/utils/math.py"] == (PACKAGES / "rownorm" / "rownorm" / "utils" / "math.py").read_text()
    assert (
        'configs=[triton.Config({"BLOCK": BLOCK}, num_warps=NUM_WARPS, num_stages=NUM_STAGES)]'
        in function.kernel.source
    )


def test_sizes_of_an_input_function_are_constants_of_the_problem() -> None:
    problem = SWIGLU.translated().problem
    assert problem.at("tokens=8,hidden=32").sizes == {"tokens": 8, "hidden": 32}


def test_configs_that_cannot_be_made_here_stay_as_they_are(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = RMS_NORM.copied(tmp_path)
    path = folder / "rownorm" / "ops" / "rms_norm.py"
    path.write_text(path.read_text().replace("in WARPS", "in UNKNOWN"))
    assert RMS_NORM.translated(folder).kernels == ()
    assert "cannot be evaluated here: NameError: name 'UNKNOWN' is not defined; they stay" in caplog.text


def test_a_list_of_configs_of_code_keeps_the_hook_of_each(tmp_path: Path) -> None:
    folder = RMS_NORM.copied(tmp_path)
    path = folder / "rownorm" / "ops" / "rms_norm.py"
    path.write_text(path.read_text().replace("num_warps=warps)", "num_warps=warps, pre_hook=[print, repr][warps > 2])"))
    function = RMS_NORM.translated(folder)
    hooks = {(config["NUM_WARPS"], config["PRE_HOOK"]) for config in function.kernel.declared_configs}
    assert hooks == {(2, 1), (4, 2), (8, 2)} and len(function.kernel.declared_configs) == 6
    assert function.kernel.source.count("in WARPS])[1].pre_hook)[PRE_HOOK]") == 1
    last = function.kernel.declared_configs[-1]
    (text,) = put_back(function, function.kernel.bind(last), [last]).values()
    assert "in WARPS])[1].pre_hook)]" in text and "[0].pre_hook" not in text


def test_constants_of_two_kernels_have_names_of_their_own(tmp_path: Path) -> None:
    """And mean nothing else in the files: a constant of the user's has the plain name already."""
    kernel = (
        "@triton.autotune([triton.Config({{'B': 16}}), triton.Config({{'B': 32}})], key=['n'])\n@triton.jit\n"
        "def {name}(x, n, B: tl.constexpr):\n    pass\n"
    )
    (tmp_path / "ops.py").write_text(
        "import triton\nimport triton.language as tl\nFIRST_B = 3\n"
        + kernel.format(name="first")
        + kernel.format(name="_second")
        + "def f(x):\n    first[(1,)](x, FIRST_B)\n    _second[(1,)](x, 4)\n    return x\n"
        "def inputs(seed):\n    return [1]\n"
    )
    place = f"{tmp_path / 'ops.py'}"
    function = translate(f"{place}::f", f"{place}::f", f"{place}::inputs")
    assert [item.constants["B"] for item in function.kernels] == ["FIRST_B_2", "SECOND_B"]
    assert function.kernel.config["FIRST_B"] == 3 and function.kernel.config["FIRST_B_2"] == 16


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("M: 4\n", "inputs: Dictionary should have at least 1 item"),
        ("M: 4\ninputs: {x: {shape: [N]}}\n", "x uses the axis N, which is not given"),
        ("M: []\ninputs: {x: 1}\n", "the axis M has no extents"),
        ("M: four\ninputs: {x: 1}\n", "axes.M"),
        ("- 1\n", "it is not a mapping"),
        ("a: [", "line 1 is not a table of `inputs`: expected the node content"),
        ("M: 4\ninputs: {x: {shape: [M], dtype: fp12}}\n", "there is no dtype 'fp12'; take one of float16, "),
    ],
)
def test_a_table_that_is_none_names_the_entry(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "in.yaml").write_text(text)
    with pytest.raises(OptionError, match="`kernelwright docs functions` has its form") as caught:
        read_table(tmp_path / "in.yaml")
    assert said in str(caught.value)


def test_a_constant_of_the_package_sets_no_share_that_must_match(tmp_path: Path) -> None:
    folder = SWIGLU.copied(tmp_path)
    ops = folder / "gatedmlp" / "ops.py"
    ops.write_text(ops.read_text().replace(".to(x.dtype)", ".mul(4 * MATCHED).to(x.dtype)") + "\n\nMATCHED = 0.25\n")
    problem = SWIGLU.translated(folder).problem
    assert problem.tolerances["float16"].matched == 1.0
    bench = folder / "bench.py"
    bench.write_text(bench.read_text() + "\nMATCHED = 0.75\n")
    assert SWIGLU.translated(folder).problem.tolerances["float16"].matched == 0.75  # the inputs' file may


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


def test_entries_of_a_table_are_data(tmp_path: Path) -> None:
    """Short names of dtypes, axes that are words of Python or names of the problem's file, and no number."""
    (tmp_path / "in.yaml").write_text(
        "in: [2, 3]\ntorch: 4\ninputs:\n  x: {shape: [in, torch], dtype: fp16}\n  low: -.inf\n"
        '  none: .nan\n  text: "a\\n\'"\n  "x\\ny": 1\n'
    )
    table = read_table(tmp_path / "in.yaml")
    assert table.workloads() == {"in=2": {"in_": 2}, "in=3": {"in_": 3}}
    namespace: dict[str, Any] = {}
    exec("import torch\n" + table.source() + "\nx, low, none, text, other = get_inputs()", namespace)
    assert (tuple(namespace["x"].shape), str(namespace["x"].dtype)) == ((3, 4), "torch.float16")
    assert (namespace["low"], namespace["text"], namespace["other"]) == (-math.inf, "a\n'", 1)
    assert math.isnan(namespace["none"])


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
    assert [item.kernel for item in function.kernels] == ["kernel"]
    assert [dict(item) for item in function.kernel.declared_configs][1]["B"] == 32


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
