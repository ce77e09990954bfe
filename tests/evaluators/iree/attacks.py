"""Modules whose authors had something else in mind: inline assembly that reads files, and makes system calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelwright.core import MlirKernel, MlirProblem
from kernelwright.tuners.mlir.analysis import analyse

from .modules import kernel

RESULT = 1000
"""Is added to what the assembly leaves in rax, so that nothing is left as the plain module's result."""
_ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
_BEFORE = """
#same = affine_map<(d0, d1) -> (d0, d1)>
func.func @matmul(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x4xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x4xf32>) -> tensor<4x4xf32>
  %sum = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x4xf32>) outs(%fill : tensor<4x4xf32>) -> tensor<4x4xf32>
  %all = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%sum : tensor<4x4xf32>) outs(%empty : tensor<4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    """
_AFTER = """
    %told = arith.sitofp %found : i64 to f32
    linalg.yield %told : f32
  } -> tensor<4x4xf32>
  return %all : tensor<4x4xf32>
}
"""
_PLAIN = "%found = arith.constant 0 : i64"


def problem() -> MlirProblem:
    """A module that returns zeros."""
    return analyse(_BEFORE + _PLAIN + _AFTER, "matmul")


def module_of(assembly: Sequence[str]) -> str:
    """The same module, which returns what the assembly leaves in rax, and RESULT."""
    return f"{_BEFORE}{_found(assembly)}{_AFTER}"


def attacking(*assembly: str) -> MlirKernel:
    """A kernel of the problem that is `module_of` the assembly where `attack` is set to 1."""
    slot = f"%on = arith.constant @{{attack}} : i64\n    {_found(assembly)}"
    return kernel(_BEFORE + _PLAIN + _AFTER, _BEFORE, slot, _AFTER, attack=(1,))


def _found(assembly: Sequence[str]) -> str:
    lines = ["subq $$4096, %rsp", *assembly, "addq $$4096, %rsp", f"addq $${RESULT}, %rax", "movq %rax, $0"]
    text = "\\0A".join(line.replace('"', "\\22") for line in lines)
    used = ",".join(f"~{{{name}}}" for name in (*_ARGUMENTS, "rax", "rcx", "r11", "memory"))
    return f'%found = llvm.inline_asm has_side_effects "{text}", "=r,{used}" : () -> i64'


def call(number: int, *arguments: str | int) -> list[str]:
    """A system call; a text among its arguments is passed as its address."""
    lines = [f"movl $${number}, %eax"]
    for register, argument in zip(_ARGUMENTS, arguments, strict=False):
        if isinstance(argument, int):
            lines.append(f"movq $${argument}, %{register}")
        elif argument.startswith("%"):
            lines.append(f"movq {argument}, %{register}")
        else:
            lines += ["jmp 2f", f'1: .asciz "{argument}"', f"2: leaq 1b(%rip), %{register}"]
    return [*lines, "syscall"]


def embedded(path: Path) -> list[str]:
    """The first byte of a file that the compiler embeds."""
    return ["jmp 2f", f'1: .incbin "{path}"', "2: movzbl 1b(%rip), %eax"]


def read_at_run(path: Path) -> list[str]:
    """The first byte of a file that is read when the module runs."""
    close = ["movq %rax, %r9", *call(3, "%rdi"), "movq %r9, %rax"]
    read = ["movq %rax, %rdi", "movq %rsp, %rsi", "movq $$1, %rdx", "movl $$0, %eax", "syscall", *close]
    return [*call(2, str(path), 0, 0), "testq %rax, %rax", "js 3f", *read, "movzbl (%rsp), %eax", "3:"]


def created(path: Path) -> list[str]:
    """A new file."""
    return call(2, str(path), 0o101, 0o600)
