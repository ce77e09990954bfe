"""Run or compile Python files without a GPU; writes {path: error}, where null means that all went well.

`run_snippets.py MODE ERRORS PATH... [-- MODE ERRORS PATH...]`, in a process of its own because TRITON_INTERPRET is read
when Triton is imported; several modes at the same time share what they import:

    triton-cuda   a launch compiles the kernel for sm_90, and its results are not looked at unless the file says so
    triton-run    a launch runs the kernel in Triton's interpreter
    tilelang-cuda tilelang.compile lowers to CUDA source for sm_90a
    tilelang-cpu  as it stands: the CPU target compiles and runs
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

COMPILED_ONLY = "# compiled"
"""The first line of a file whose assertions are about the compiled code."""


def compile_launches() -> None:
    """Make every launch of a Triton kernel compile it for the arguments of the launch and return the result."""
    import torch
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime.jit import JITFunction
    from triton.tools.tensor_descriptor import TensorDescriptor

    dtypes = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.int32: "i32"}

    def type_of(value: Any) -> str:
        if isinstance(value, TensorDescriptor):
            return f"tensordesc<{dtypes[value.base.dtype]}{list(value.block_shape)}>"
        if isinstance(value, torch.Tensor):
            return f"*{dtypes[value.dtype]}"
        return {int: "i32", float: "fp32"}[type(value)]

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        arguments = {p.name: p.default for p in self.params if p.has_default}
        arguments |= dict(zip(self.arg_names, args, strict=False))
        arguments |= {name: options.pop(name) for name in list(options) if name in self.arg_names}
        constants = {p.name: arguments[p.name] for p in self.params if p.is_constexpr or arguments[p.name] is None}
        signature = {p.name: "constexpr" if p.name in constants else type_of(arguments[p.name]) for p in self.params}
        # As a real launch would, tell the compiler which pointers and sizes are multiples of 16.
        aligned = {
            (i,): [["tt.divisibility", 16]]
            for i, name in enumerate(self.arg_names)
            if name not in constants
            and (
                isinstance(arguments[name], torch.Tensor)
                or (isinstance(arguments[name], int) and arguments[name] % 16 == 0)
            )
        }
        source = ASTSource(fn=self, signature=signature, constexprs=constants, attrs=aligned)
        return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)

    JITFunction.run = run


def lower_only() -> None:
    """Make tilelang.compile lower for sm_90a; what it returns has a source and cannot be called."""
    import tilelang
    from tilelang import tvm
    from tilelang.transform.pass_config import normalize_pass_configs
    from tvm.target import Target

    class Lowered:
        def __init__(self, source: str) -> None:
            self.source = source

        def get_kernel_source(self) -> str:
            return self.source

    def compile(function: Any, out_idx: Any = None, target: str = "cuda", pass_configs: Any = None) -> Lowered:
        assert target == "cuda"
        sm_90a = Target({"kind": "cuda", "arch": "sm_90a"})
        config = normalize_pass_configs(pass_configs)
        # Layout inference asks for the target of the context, whatever the argument says.
        with tvm.transform.PassContext(opt_level=3, config=config), sm_90a:
            return Lowered(tilelang.lower(function, target=sm_90a).kernel_source)

    tilelang.compile = compile


def attempt(path: Path, mode: str) -> str | None:
    """The error that a file ends with, None when it ends well."""
    text = path.read_text()
    # Without running a kernel there are no results, so only assertions about the code are kept.
    optimize = 1 if mode == "triton-cuda" and not text.startswith(COMPILED_ONLY) else 0
    try:
        exec(compile(text, str(path), "exec", optimize=optimize), {"__name__": path.stem})
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def run(mode: str, errors: str, *paths: str) -> None:
    if mode == "triton-cuda":
        compile_launches()
    elif mode == "tilelang-cuda":
        lower_only()
    Path(errors).write_text(json.dumps({path: attempt(Path(path), mode) for path in paths}))


def main(arguments: list[str]) -> int:
    """Run each mode in a fork; 1 if one did not come to its end."""
    tasks = [list(task) for dashes, task in itertools.groupby(arguments, "--".__eq__) if not dashes]
    os.environ.pop("TRITON_INTERPRET", None)
    if "triton-run" in {mode for mode, *_ in tasks}:
        assert len(tasks) == 1
        os.environ["TRITON_INTERPRET"] = "1"
    for module in ("torch", "triton", *(["tilelang"] if len(tasks) > 1 else [])):
        importlib.import_module(module)
    children = []
    for task in tasks:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                run(*task)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        children.append(child)
    return max(int(os.waitpid(child, 0)[1] != 0) for child in children)


sys.exit(main(sys.argv[1:]))
