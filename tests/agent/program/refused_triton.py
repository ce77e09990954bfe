"""What an evaluator says of Triton kernels that do not compile for sm_90; needs no GPU.

Reads {name: source} from the standard input and prints {name: message}. A launch is replaced by its compilation.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
from kernelwright.evaluators.candidate.worker import stage_of
from kernelwright.evaluators.workers.request_loop import describe
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

TYPES = {torch.float32: "*fp32", int: "i32"}


def compile_launch(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
    arguments = dict(zip(self.arg_names, args, strict=False)) | options
    signature, constants = {}, {}
    for parameter in self.params:
        value = arguments[parameter.name]
        if parameter.is_constexpr:
            signature[parameter.name], constants[parameter.name] = "constexpr", value
        else:
            signature[parameter.name] = TYPES[value.dtype if isinstance(value, torch.Tensor) else type(value)]
    triton.compile(ASTSource(fn=self, signature=signature, constexprs=constants), target=GPUTarget("cuda", 90, 32))


def message(name: str, source: str, folder: Path) -> str:
    """Run a kernel as the worker of a candidate does; the folder is named as a worker's."""
    path = folder / "kernel_1.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        module.ModelNew(256)(torch.randn(32, 256))
    except Exception as error:
        return f"{stage_of(error)}_error: {describe(error)}"
    raise AssertionError(f"{name} compiles")


def main() -> None:
    JITFunction.run = compile_launch
    found = {}
    for name, source in json.load(sys.stdin).items():
        with tempfile.TemporaryDirectory() as root:
            folder = Path(root) / "candidate-1"
            folder.mkdir()
            with torch.no_grad():
                found[name] = message(name, source, folder)
    json.dump(found, sys.stdout)


main()
