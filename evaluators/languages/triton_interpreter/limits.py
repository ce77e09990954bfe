"""Distinguishes limits of Triton's interpreter from errors of a kernel."""

from __future__ import annotations

from typing import Any


class InterpreterLimitError(NotImplementedError):
    """Something that runs on a GPU, and not in the interpreter."""

    def __init__(self, what: str) -> None:
        super().__init__(f"Triton's interpreter cannot {what}; on a GPU this may run")


class MissingAttributeError(InterpreterLimitError, AttributeError):
    """One that who asks whether there is such an attribute need not catch."""


def name_limits(builder: Any) -> None:
    """Let what the interpreter's builder lacks, and what it refuses, raise `InterpreterLimitError`.

    What orders grids does nothing, since launches run one after the other.
    """
    from triton.runtime.interpreter import InterpretedFunction

    def create_inline_asm(self: Any, text: str, *_: Any) -> Any:
        first = next((line.strip() for line in text.splitlines() if line.strip(" \t{}")), text)
        raise InterpreterLimitError(f"run inline assembly ({first[:60]})")

    def missing(self: Any, name: str) -> Any:
        if not name.startswith("create_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def refuse(*_: Any, **__: Any) -> Any:
            raise InterpreterLimitError(f"run the operation {name.removeprefix('create_')}")

        return refuse

    def missing_of_kernel(self: Any, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise MissingAttributeError(f"answer for a kernel's {name}")

    def run(self: Any, *args: Any, warmup: bool, **options: Any) -> Any:
        return NotCompiled() if warmup else really_run(self, *args, warmup=warmup, **options)

    really_run, InterpretedFunction.run = InterpretedFunction.run, run
    InterpretedFunction.__getattr__ = missing_of_kernel
    builder.create_inline_asm = create_inline_asm
    builder.__getattr__ = missing
    for name in ("create_grid_dependency_wait", "create_grid_dependency_launch_dependents"):
        setattr(builder, name, lambda self: None)


class NotCompiled:
    """Stands for a compiled kernel: the interpreter has none."""

    def __getattr__(self, name: str) -> Any:
        raise MissingAttributeError(f"compile a kernel, which has no {name} then")
