"""Compile Triton kernels for sm_90 without a GPU; prints {problem: {kernel: shared bytes}}.

Every kernel of the corpus, or the files of the arguments, each written `problem=path`. Raises an exception where a
launch plan could not contain its PTX.

Each ModelNew runs on CPU tensors with the launch replaced: instead of running, a kernel is compiled for
the arguments of the launch.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)

import torch
import triton
from kernelwright.core.launch_plan import KernelCode
from kernelwright.corpus import find_problem, list_kernels
from kernelwright.evaluators.replay.ptx import require_ptx
from kernelwright.evaluators.workers.modules import ProblemModule
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

TYPES = {torch.float32: "*fp32", int: "i32", float: "fp32"}


def compile_launch(function: Any, arguments: dict[str, Any], options: dict[str, int]) -> int:
    """Compile one launch; the bytes of shared memory that it takes."""
    signature, constants = {}, {}
    for parameter in function.params:
        value = arguments[parameter.name]
        if parameter.is_constexpr or value is None:
            signature[parameter.name], constants[parameter.name] = "constexpr", value
        else:
            signature[parameter.name] = TYPES[value.dtype if isinstance(value, torch.Tensor) else type(value)]
    source = ASTSource(fn=function, signature=signature, constexprs=constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    name = compiled.metadata.name
    require_ptx(KernelCode(name=name, kind="ptx", text=compiled.asm["ptx"], entry=name, parameters=()))
    return int(compiled.metadata.shared)


def main() -> None:
    found: dict[str, dict[str, int]] = {}
    files = [(file.problem, str(file.path)) for file in list_kernels("triton")]
    for name, path in [tuple(text.split("=", 1)) for text in sys.argv[1:]] or files:
        kernels = found.setdefault(name, {})

        def run(
            self: Any, *args: Any, grid: Any, warmup: bool, kernels: dict[str, int] = kernels, **options: Any
        ) -> None:
            arguments = dict(zip(self.arg_names, args, strict=False))
            arguments |= {name: options.pop(name) for name in list(options) if name in self.arg_names}
            arguments = {p.name: p.default if p.has_default else None for p in self.params} | arguments
            launch = {name: options[name] for name in ("num_warps", "num_stages", "maxnreg") if name in options}
            kernels[self.fn.__name__] = compile_launch(self, arguments, launch)

        JITFunction.run = run
        problem = find_problem(name)
        tiny = problem.read().at("tiny")
        module = ProblemModule(problem.path, tiny.sizes, "cpu")
        spec = importlib.util.spec_from_file_location("kernel", path)
        assert spec is not None
        assert spec.loader is not None
        kernel = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(kernel)
        with torch.no_grad():
            kernel.ModelNew(*module.init_inputs())(*module.inputs(0))
    json.dump(found, sys.stdout)


main()
