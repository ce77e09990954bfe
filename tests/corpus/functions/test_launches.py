"""Values of launches as parameters: where they come from, their names, and how they come back."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import kernelwright
import pytest
from kernelwright.core.space_inference import declared_space
from kernelwright.core.user_package import CandidateText
from kernelwright.corpus.functions.patch import write_patch
from kernelwright.corpus.functions.putting_back import put_back
from kernelwright.corpus.functions.translation import UserFunction, translate

from ...user_packages import RMS_NORM, apply

HEAD = """import functools
import torch
import triton
import triton.language as tl

SIZE: tl.constexpr = tl.constexpr(64)


@triton.jit
def _scale(x, y, n, factor, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        o = start + tl.arange(0, BLOCK)
        tl.store(y + o, tl.load(x + o, mask=o < n) * factor, mask=o < n)


def settings(n):
    return min(64, triton.next_power_of_2(n)), 8


"""
TAIL = """

def scale_torch(x):
    return x * 2


def inputs(seed, n=300):
    return [torch.randn(n)]
"""
LAUNCH = "    _scale[(triton.cdiv(x.numel(), B),)](x, y, x.numel(), 2.0, B)\n"


def written(tmp_path: Path, body: str, before: str = "", head: str = "x") -> UserFunction:
    """A function of x that launches, in a file of its own."""
    text = f"{HEAD}{before}def scale({head}):\n    y = torch.empty_like(x)\n{body}    return y\n{TAIL}"
    path = tmp_path / "ops.py"
    path.write_text(text)
    return translate(f"{path}::scale", f"{path}::scale_torch", f"{path}::inputs")


def patched(function: UserFunction, **config: int) -> str:
    """The file of a function with these values; as it was where nothing changes."""
    assert put_back(function, function.kernel, []) == {}
    (text,) = put_back(function, function.kernel.bind(config), []).values()
    ast.parse(text)
    return text


@pytest.mark.parametrize(
    ("body", "start", "constant", "back"),
    [
        ("    B = 32  # a tile\n" + LAUNCH, 32, "SCALE_BLOCK", "    B = 128  # a tile\n"),
        ("    B = 1 << 6\n" + LAUNCH, 64, "SCALE_BLOCK", "    B = 128\n"),
        ("    B = tl.constexpr(16)\n" + LAUNCH, 16, "SCALE_BLOCK", "    B = tl.constexpr(128)\n"),
        ("    B, C = 32, 4\n" + LAUNCH, 32, "SCALE_BLOCK", "    B, C = 128, 4\n"),
        ("    B = SIZE\n" + LAUNCH, 64, "SCALE_BLOCK", "SIZE: tl.constexpr = tl.constexpr(128)\n"),
        ("    B = triton.next_power_of_2(x.numel())\n" + LAUNCH, 0, "SCALE_BLOCK", "    B = 128\n"),
        ("    B, C = settings(x.numel())\n" + LAUNCH, 0, "SCALE_BLOCK", "settings(x.numel())\n    B = 128\n"),
        (
            "    if x.numel() > 99:\n        B = 64\n    else:\n        B = 32\n" + LAUNCH,
            0,
            "SCALE_BLOCK",
            "B = 128\n    else:\n        B = 128\n",
        ),
        ("    _scale[(5,)](x, y, 300, 2.0, BLOCK=64)\n", 64, "SCALE_BLOCK", "2.0, BLOCK=128)\n"),
        ("    _scale[(5,)](x, y, 300, 2.0, **dict(BLOCK=64))\n", 64, "SCALE_BLOCK", "**dict(BLOCK=128))\n"),
        (
            "    made = functools.partial(dict, BLOCK=64)()\n    _scale[(5,)](x, y, 300, 2.0, **made)\n",
            0,
            "SCALE_BLOCK",
            '**{**made, "BLOCK": 128})\n',
        ),
    ],
)
def test_where_a_block_comes_from(tmp_path: Path, body: str, start: int, constant: str, back: str) -> None:
    function = written(tmp_path, body)
    assert function.kernel.config[constant] == start
    assert {start, 128} <= set(function.kernel.declared_values[constant])
    assert back in patched(function, **{constant: 128})


@pytest.mark.parametrize(("extent", "found"), [("B", {"SCALE_B"}), ("16", set())])
def test_one_letter_is_a_tile_where_a_range_has_its_extent(tmp_path: Path, extent: str, found: set[str]) -> None:
    """Else it may be a batch, such as of `program_id // B`."""
    text = HEAD.replace("BLOCK", "B").replace("tl.arange(0, B)", f"tl.arange(0, {extent})")
    path = tmp_path / "ops.py"
    path.write_text(
        f"{text}def scale(x):\n    y = torch.empty_like(x)\n{LAUNCH.replace(', B)', ', 64)')}    return y\n{TAIL}"
    )
    function = translate(f"{path}::scale", f"{path}::scale_torch", f"{path}::inputs")
    assert {name for name in function.kernel.config if name.startswith("SCALE_B")} == found


def test_defaults_of_arguments_and_what_callers_give(tmp_path: Path) -> None:
    function = written(tmp_path, LAUNCH, head="x, B=32")
    assert "def scale(x, B=128):" in patched(function, SCALE_BLOCK=128)
    launcher = f"def launch(x, y, B=32):\n{LAUNCH}\n\n"
    function = written(tmp_path, "    launch(x, y, B=16)\n", launcher)
    assert function.kernel.config["SCALE_BLOCK"] == 16  # the default counts for nobody
    assert "launch(x, y, B=128)" in patched(function, SCALE_BLOCK=128)


def test_a_size_that_inputs_give_is_no_parameter(tmp_path: Path) -> None:
    function = written(tmp_path, LAUNCH, head="x, B=None")
    assert "BLOCK" not in str(function.kernel.declared_values)
    function = written(tmp_path, "    B = x.shape[0]\n" + LAUNCH)
    assert "BLOCK" not in str(function.kernel.declared_values)


def test_options_are_parameters_also_where_a_launch_gives_none(tmp_path: Path) -> None:
    function = written(
        tmp_path, "    _scale[(5,)](\n        x, y, 300, (2.0),  # twice (at least)\n        BLOCK=64,\n    )\n"
    )
    assert function.kernel.config["NUM_WARPS"] == 4 and function.kernel.config["NUM_STAGES"] == 3
    assert "        BLOCK=64, num_warps=8,\n" in patched(function, NUM_WARPS=8)
    assert "        BLOCK=64, num_stages=2,\n" in patched(function, NUM_STAGES=2)
    function = written(tmp_path, "    _scale[(5,)](x, y, 300, 2.0, 64, num_warps=8 if x.is_cuda else 4, maxnreg=128)\n")
    assert function.kernel.config["SCALE_NUM_WARPS"] == 0
    text = patched(function, SCALE_NUM_WARPS=2, MAXNREG=64)
    assert "2.0, 64, num_warps=2, maxnreg=64)" in text


def test_heuristics_are_parameters(tmp_path: Path) -> None:
    function = written(tmp_path, "    _scale[(5,)](x, y, 300, 2.0)\n")
    path = tmp_path / "ops.py"
    said = '@triton.heuristics({"BLOCK": lambda args: 64, "num_warps": lambda args: 2 if args["n"] < 9 else 4})\n'
    path.write_text(path.read_text().replace("@triton.jit\ndef _scale", f"{said}@triton.jit\ndef _scale"))
    function = translate(f"{path}::scale", f"{path}::scale_torch", f"{path}::inputs")
    assert function.kernel.config["SCALE_BLOCK"] == 64 and function.kernel.config["SCALE_NUM_WARPS"] == 0
    assert '"BLOCK": lambda args: 128, "num_warps": lambda args: 8}' in patched(
        function, SCALE_BLOCK=128, SCALE_NUM_WARPS=8
    )


def test_constants_of_two_kernels_are_apart_and_lines_keep_their_numbers(tmp_path: Path) -> None:
    other = HEAD[HEAD.index("@triton.jit") : HEAD.index("def settings")].replace("_scale", "_double")
    body = "    B = 64\n" + LAUNCH + LAUNCH.replace("_scale", "_double").replace(", B)", ", 32)")
    function = written(tmp_path, body, other)
    names = ["SCALE_BLOCK", "SCALE_NUM_WARPS", "SCALE_NUM_STAGES", "DOUBLE_BLOCK", "DOUBLE_NUM_WARPS"]
    assert [name for name in function.kernel.declared_values if name in names] == names
    text = CandidateText.of(function.kernel.source).files["ops.py"]
    assert text.count("\n") == (tmp_path / "ops.py").read_text().count("\n")
    assert "2.0, 128," not in patched(function, SCALE_BLOCK=128) and "2.0, 128)" in patched(function, DOUBLE_BLOCK=128)


def test_a_name_that_the_launcher_has_is_not_taken(tmp_path: Path) -> None:
    """A constant of that name would be read before its assignment."""
    function = written(tmp_path, "    BLOCK = 64\n    _scale[(5,)](x, y, 300, 2.0, BLOCK)\n")
    assert "BLOCK = SCALE_BLOCK\n" in function.kernel.source
    assert "    BLOCK = 128\n" in patched(function, SCALE_BLOCK=128)


def test_gradients_are_not_searched(tmp_path: Path) -> None:
    both = (
        "class Scale(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        y = torch.empty_like(x)\n        _scale[(5,)](x, y, 300, 2.0, 64)\n        return y\n\n"
        "    @staticmethod\n    def backward(ctx, y):\n        _scale[(5,)](y, y, 300, 2.0, 32)\n        return y\n\n\n"
    )
    function = written(tmp_path, "    return Scale.apply(x)\n", both)
    assert function.kernel.config["SCALE_BLOCK"] == 64 and len(function.launched) == 3


def test_the_configs_of_an_autotuner_and_a_launch_are_searched_together(tmp_path: Path) -> None:
    """The autotuner's configs stay the first ones, and keep what prepares their launches."""
    folder = RMS_NORM.copied(tmp_path)
    path = folder / "rownorm" / "ops" / "rms_norm.py"
    path.write_text(path.read_text().replace("num_warps=warps)", "num_warps=warps, pre_hook=print)"))
    function = RMS_NORM.translated(folder)
    assert function.launched == ()  # what an autotuner sets must not be given to a launch
    assert "in WARPS])[0].pre_hook)]" in function.kernel.source
    space = declared_space(function.kernel)
    assert space is not None and len(function.kernel.configs_in(space)) == 6
    first, *_, last = function.kernel.declared_configs
    (text,) = put_back(function, function.kernel.bind(last), [last, first]).values()
    assert text.count("in WARPS])[0].pre_hook)") == 2


def test_a_tuned_launcher_is_patched_and_right(tmp_path: Path) -> None:
    function = written(tmp_path, "    B, C = settings(x.numel())\n" + LAUNCH)
    kernel = function.kernel.bind({"SCALE_BLOCK": 32, "NUM_WARPS": 2})
    files = write_patch(tmp_path / "out.diff", function, kernel, [])
    assert apply(tmp_path / "out.diff", tmp_path).returncode == 0
    (path,) = files
    assert path.read_text() == files[path] and "x.numel(), 2.0, B, num_warps=2)" in files[path]
    verdict = kernelwright.evaluate(
        f"{path}::scale",
        reference=f"{path}::scale_torch",
        inputs=f"{path}::inputs",
        device="cpu",
        sandbox="none",
    )
    assert verdict.correct
    program = "import ops, torch; x, = ops.inputs(0); assert torch.equal(ops.scale(x), 2 * x)"
    environment = {"TRITON_INTERPRET": "1", "PATH": ""}
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


TILELANG = """import functools

import tilelang
import tilelang.cpu.language as T
import torch


@functools.cache
def build(M, N, block_N=16):
    BLOCK = 4

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, BLOCK)) as b:
            for i, j, k in T.grid(BLOCK, N // block_N, block_N):
                Y[b * BLOCK + i, j * block_N + k] = X[b * BLOCK + i, j * block_N + k] * 2.0

    return tilelang.compile(kernel, out_idx=[-1], target="c", compile_flags=["-O3"])


def double(x):
    return build(*x.shape)(x)


def double_torch(x):
    return x * 2.0


def inputs(seed, rows=64):
    return [torch.randn(rows, 128)]
"""


def test_local_blocks_of_tilelang_are_tuned_from_the_command_to_the_patch(tmp_path: Path) -> None:
    """On the CPU, where its kernels are timed."""
    path = tmp_path / "ops.py"
    path.write_text(TILELANG)
    function = translate(f"{path}::double", f"{path}::double_torch", f"{path}::inputs")
    assert {name: function.kernel.config[name] for name in function.kernel.declared_values} == {
        "BUILD_BLOCK": 4,
        "BLOCK_N": 16,
    }
    patch = tmp_path / "out.diff"
    tuned = kernelwright.tune(
        f"{path}::double",
        reference=f"{path}::double_torch",
        inputs=f"{path}::inputs",
        device="cpu",
        sandbox="none",
        trials=3,
        patch=patch,
        results=tmp_path / "results",
    )
    assert tuned.trials >= 3
    if tuned.patch is not None:  # the start may be the fastest
        assert apply(patch, tmp_path).returncode == 0
        path.write_text(TILELANG)
    files = write_patch(patch, function, function.kernel.bind({"BUILD_BLOCK": 8, "BLOCK_N": 32}), [])
    assert "    BLOCK = 8\n" in files[path] and "block_N=32" in files[path]
