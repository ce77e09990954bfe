"""The forms that lists of configs have in packages, and kernels that assignments make."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from kernelwright.core import Config
from kernelwright.corpus.functions.putting_back import put_back
from kernelwright.corpus.functions.translation import UserFunction, translate

from .test_launches import HEAD, TAIL

LAUNCH = "def scale(x):\n    y = torch.empty_like(x)\n    _scale[(5,)](x, y, 300, 2.0)\n    return y\n"


def of_text(tmp_path: Path, text: str, name: str = "scale") -> UserFunction:
    path = tmp_path / "ops.py"
    path.write_text(text)
    return translate(f"{path}::{name}", f"{path}::{name}_torch", f"{path}::inputs")


def tuned(tmp_path: Path, configs: str, before: str = "") -> UserFunction:
    """A kernel under an autotuner with these configs."""
    decorator = f'{before}@triton.autotune(configs=[{configs}], key=["n"])\n@triton.jit\ndef _scale'
    return of_text(tmp_path, f"{HEAD.replace(f'@triton.jit{chr(10)}def _scale', decorator)}{LAUNCH}{TAIL}")


def with_last_config(function: UserFunction) -> str:
    """The file with the last two of its own configs, the last the best."""
    own = function.kernel.declared_configs
    assert put_back(function, function.kernel, [own[0], *own[1:]]) == {}
    (text,) = put_back(function, function.kernel.bind(own[-1]), [own[-1], own[-2]]).values()
    ast.parse(text)
    return text


def test_configs_that_set_different_parameters_keep_what_they_set(tmp_path: Path) -> None:
    several = (
        'triton.Config({"BLOCK": 64}, num_warps=4), triton.Config({"BLOCK": 128, "waves_per_eu": 2}, num_warps=4), '
        'triton.Config({"BLOCK": 32, "waves_per_eu": 1}, num_warps=8)'
    )
    function = tuned(tmp_path, several)
    assert function.kernel.config["WAVES_PER_EU"] == 0
    assert list(function.kernel.declared_values["WAVES_PER_EU"]) == [0, 1, 2]
    assert '**({"waves_per_eu": WAVES_PER_EU} if WAVES_PER_EU else {})' in function.kernel.source
    text = with_last_config(function)
    assert 'triton.Config({"BLOCK": 32, "waves_per_eu": 1}, num_warps=8, num_stages=3)' in text
    (text,) = put_back(function, function.kernel.bind({"BLOCK": 256}), [Config({"BLOCK": 256})]).values()
    assert 'configs=[triton.Config({"BLOCK": 256}, num_warps=4, num_stages=3)]' in text


def test_configs_keep_their_own_hooks(tmp_path: Path) -> None:
    hooks = "def first(args):\n    pass\n\n\ndef second(args):\n    pass\n\n\n"
    several = (
        'triton.Config({"BLOCK": 64}, pre_hook=first), triton.Config({"BLOCK": 128}), '
        'triton.Config({"BLOCK": 32}, pre_hook=second)'
    )
    function = tuned(tmp_path, several, hooks)
    assert "pre_hook=(None, first, second)[PRE_HOOK]" in function.kernel.source
    assert [config["PRE_HOOK"] for config in function.kernel.declared_configs] == [1, 0, 2]
    text = with_last_config(function)
    assert 'triton.Config({"BLOCK": 32}, num_warps=4, num_stages=3, pre_hook=second)' in text
    assert 'triton.Config({"BLOCK": 128}, num_warps=4, num_stages=3),' in text


MADE = """

def decorated():
    if functools.cache is None:
        return triton.autotune(configs=every(), key=["n"])
    return given(best())


def every():
    return [triton.Config({"BLOCK": 8}), triton.Config({"BLOCK": 16})]


def given(config):
    return triton.heuristics({name: (lambda args, _v=value: _v) for name, value in config.all_kwargs().items()})


def best():
    return triton.Config(dict(BLOCK=64), num_warps=8)


_scale = triton.jit(_scale)
"""


@pytest.mark.parametrize("elsewhere", [False, True])
def test_kernels_that_assignments_make(tmp_path: Path, elsewhere: bool) -> None:
    """With the one config that the package's own decorator chooses, wherever that stands."""
    head, made = HEAD.replace("@triton.jit\n", ""), MADE
    if elsewhere:
        (tmp_path / "tuning.py").write_text("import functools\nimport triton\n" + MADE[: MADE.index("_scale = ")])
        made = "from tuning import decorated\n" + MADE[MADE.index("_scale = ") :]
    function = of_text(tmp_path, f"{head}{made}_scale = decorated()(_scale)\n\n\n{LAUNCH}{TAIL}")
    assert {row.name: row.start for row in function.launched} == {"BLOCK": 64, "num_warps": 8}
    (path,) = files = put_back(function, function.kernel.bind({"SCALE_BLOCK": 128, "NUM_WARPS": 4}), [])
    assert "return triton.Config(dict(BLOCK=128), num_warps=4)" in files[path]
    assert path.name == ("tuning.py" if elsewhere else "ops.py")


def test_an_autotuner_in_an_assignment(tmp_path: Path) -> None:
    head = HEAD.replace("@triton.jit\n", "")
    configs = 'triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})'
    made = f'_scale = triton.jit(_scale)\n_scale = triton.autotune(configs=[{configs}], key=["n"])(_scale)\n\n\n'
    function = of_text(tmp_path, f"{head}{made}{LAUNCH}{TAIL}")
    assert function.launched == () and [item.key for item in function.kernels] == [("n",)]
    (text,) = put_back(function, function.kernel.bind({"BLOCK": 128}), [Config({"BLOCK": 128})]).values()
    assert 'configs=[triton.Config({"BLOCK": 128}, num_warps=4, num_stages=3)], key=["n"])(_scale)' in text


TILELANG = """import tilelang
import tilelang.language as T
import torch


def configs():
    return [{"block_M": 64, "threads": 128}, {"block_M": 128, "threads": 256}]


@tilelang.autotune(configs=LIST)
@tilelang.jit(out_idx=[-1])
def build(M, N, block_M=32, threads=128):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as b:
            for i, j in T.Parallel(block_M, N):
                Y[b * block_M + i, j] = X[b * block_M + i, j] * 2.0

    return kernel


def double(x):
    return build(*x.shape)(x)


def double_torch(x):
    return x * 2.0


def inputs(seed, rows=64):
    return [torch.randn(rows, 128)]
"""


@pytest.mark.parametrize(
    "configs",
    ["[dict(block_M=64, threads=128), dict(block_M=128, threads=256)]", "configs()", "configs"],
    ids=["literals", "of code", "a function"],
)
def test_configs_of_tilelang_are_dicts(tmp_path: Path, configs: str) -> None:
    function = of_text(tmp_path, TILELANG.replace("LIST", configs), "double")
    assert 'configs=[{"block_M": BLOCK_M, "threads": THREADS}]' in function.kernel.source
    own = [Config({"BLOCK_M": 64, "THREADS": 128}), Config({"BLOCK_M": 128, "THREADS": 256})]
    assert list(function.kernel.declared_configs) == own
    (text,) = put_back(function, function.kernel.bind({"BLOCK_M": 256}), [Config({"BLOCK_M": 256})]).values()
    assert '@tilelang.autotune(configs=[{"block_M": 256, "threads": 128}])' in text
