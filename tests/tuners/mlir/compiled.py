"""What IREE's compiler makes of a module."""

from __future__ import annotations

import subprocess

from kernelwright.core import Target
from kernelwright.evaluators.iree.target import find_compiler

FLAGS = {
    Target.CPU: ["--iree-hal-target-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=generic"],
    Target.CUDA: ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"],
}


def chosen_configs(source: str, target: Target, *more: str) -> list[str]:
    """The `lowering_config`s of the operations with three operands in IREE's dispatches, by IREE's bindings."""
    from iree.compiler import ir
    from kernelwright.tuners.mlir.bindings import walk

    text = compiled(source, target, "--compile-to=executable-configurations", *more).decode()
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)  # its operations do not keep it
        three = [
            operation
            for operation in walk(module.operation)
            if operation.name.startswith("linalg.") and len(operation.operands) == 3
        ]
        return [
            str(operation.attributes["lowering_config"])
            for operation in three
            if "lowering_config" in operation.attributes
        ]


def lowering_config(info: str) -> str:
    """The same of a `compilation_info`."""
    from iree.compiler import ir
    from iree.compiler.dialects import iree_codegen

    with ir.Context():
        return str(iree_codegen.CompilationInfoAttr(ir.Attribute.parse(info)).lowering_config)


def compiled(source: str, target: Target, *more: str) -> bytes:
    """What the compiler writes; raises where it refuses."""
    # On a busy machine its threads have waited for each other without end, and a module of this size gains nothing.
    command = [str(find_compiler()), "-", "-o", "-", "--mlir-disable-threading", *FLAGS[target], *more]
    return subprocess.run(command, input=source.encode(), capture_output=True, check=True, timeout=60).stdout
