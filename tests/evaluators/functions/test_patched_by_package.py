"""A package that replaces functions of torch when it is imported: that is its own, and no candidate's."""

from __future__ import annotations

from pathlib import Path

from kernelwright.core import Config, PythonKernel, Status
from kernelwright.corpus.functions.translation import translate
from kernelwright.evaluators.local import LocalEvaluator

from ...exploits.harness import unread

FILES = {
    "__init__": "",
    "switches": """
import torch

_set_stream = torch.cuda.set_stream


def set_stream(stream):
    return _set_stream(stream)


torch.cuda.set_stream = set_stream
""",
    "registry": """
KNOWN = {}


def register(function):
    assert function.__name__ not in KNOWN, f"twice: {function.__name__}"
    KNOWN[function.__name__] = function
    return function
""",
    "kernels": """
import functools

import tilelang
import tilelang.cpu.language as T

from .registry import register

SCALE = 2.0


@register
@functools.cache
def build(M, N):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as i:
            for j in T.serial(N):
                Y[i, j] = X[i, j] * SCALE

    return tilelang.compile(kernel, target="c", compile_flags=["-O3"])
""",
    "ops": """
import json

import torch

from . import switches
from .kernels import build

_loads = json.loads
json.loads = lambda text, **options: _loads(text, **options)
torch.nn.Module.half = lambda module: module


def double(x):
    y = torch.empty_like(x)
    build(*x.shape)(x, y)
    return y


def double_torch(x):
    return x * 2.0


def inputs(seed):
    return [torch.randn(16, 64)]
""",
}


def test_only_what_a_candidate_replaces_is_held_against_it(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    folder = tmp_path / "patching"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text)
    function = translate(*(f"{folder}/ops.py::{name}" for name in ("double", "double_torch", "inputs")))
    source = function.kernel.source
    changed = {
        "nothing": source,
        "a kernel": source.replace("X[i, j] * SCALE", "X[i, j] + X[i, j]"),
        "what the package did": source.replace(
            "SCALE = 2.0\n", "SCALE = 2.0\nimport json\njson.loads = lambda text, **options: {}\n"
        ),
        "torch": source.replace("SCALE = 2.0\n", "SCALE = 2.0\nimport torch\ntorch.cuda.set_stream = lambda it: it\n"),
    }
    assert len(set(changed.values())) == len(changed)
    with unread():
        found = {
            name: next(iter(evaluator.evaluate(function.problem, PythonKernel.parse(text), [Config()])))
            for name, text in changed.items()
        }
    assert found["nothing"].status is found["a kernel"].status is Status.OK, found["a kernel"].message
    for name, replaced in (("torch", "torch.cuda.set_stream"), ("what the package did", "json.loads")):
        rejection = found[name].rejection
        assert rejection is not None and rejection.rule == "patched-function" and replaced in rejection.where
