"""Calls of the interpreter: numbers as arguments, builtins under any name, and `tl` replaced once in a launch."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any


def fix_calls() -> None:
    """Let kernels call `tl` by whatever name, with numbers as they are compiled."""
    from triton.runtime import interpreter

    interpreter._patch_lang = _patching_once(interpreter._patch_lang)
    interpreter._implicit_cvt = _with_floats(interpreter._implicit_cvt)
    interpreter.counted_in_tensors = _counted_in_tensors  # by which rewritten kernels find it
    interpreter.ASTTransformer.visit_For = _visit_loop
    _call_with_interpreter()


def _with_floats(really: Any) -> Any:
    """Return the interpreter's conversion of arguments, with floats in fp32, as they are compiled."""
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def convert(argument: Any) -> Any:
        if isinstance(argument, float | np.floating):
            return tl.tensor(TensorHandle(np.array([argument], dtype=np.float32), tl.float32), tl.float32)
        return really(argument)

    return convert


def _visit_loop(self: Any, node: ast.For) -> ast.AST:
    """Rewrite a kernel's loop: its number is a tensor, as it is compiled, unless the loop is unrolled."""
    self.generic_visit(node)
    called = node.iter.func if isinstance(node.iter, ast.Call) else None
    if isinstance(called, ast.Name | ast.Attribute):
        name = called.id if isinstance(called, ast.Name) else called.attr
        if name != "static_range":
            counted = ast.Name(id=_counted_in_tensors.__name__.removeprefix("_"), ctx=ast.Load())
            node.iter = ast.copy_location(ast.Call(func=counted, args=[node.iter], keywords=[]), node.iter)
    return node


def _counted_in_tensors(numbers: Iterable[Any]) -> Iterator[Any]:
    from triton.runtime.interpreter import interpreter_semantic

    return (interpreter_semantic.to_tensor(number) if type(number) is int else number for number in numbers)


def _call_with_interpreter() -> None:
    """Let Triton's builtins run in the interpreter wherever they are called from.

    The interpreter replaces attributes of `tl` while a kernel runs, so it misses `exp = tl.exp` in a module, builtins
    of `tl.extra`, and those that a package declares. All are the same function around another: its code is replaced.
    """
    import triton.language as tl
    from triton.runtime.interpreter import interpreter_semantic

    tl.core.interpreter_semantic = interpreter_semantic
    old = next(item for item in tl.core.builtin.__code__.co_consts if isinstance(item, CodeType))
    new = _calling_inside(None).__code__.replace(co_filename=old.co_filename, co_firstlineno=old.co_firstlineno)
    builtin = tl.core.builtin.__code__
    constants = tuple(new if item is old else item for item in builtin.co_consts)
    for wrapper in _functions_of_triton():
        if wrapper.__code__ is old:
            wrapper.__code__ = new
    tl.core.builtin.__code__ = builtin.replace(co_consts=constants)


def _calling_inside(fn: Any) -> Any:
    """Return what stands for `tl.core.builtin`'s wrapper; its globals are those of `tl.core`."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("_semantic") is None:
            kwargs["_semantic"] = interpreter_semantic  # type: ignore[name-defined] # noqa: F821
        return fn(*args, **kwargs)

    return wrapper


def _functions_of_triton() -> Iterator[FunctionType]:
    """Yield the functions of all imported modules of `triton`, and of their classes."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "triton" or type(module) is not ModuleType:
            continue
        for value in list(vars(module).values()):
            members = vars(value).values() if type(value) is type else [value]
            yield from (item for item in members if type(item) is FunctionType)


def _patching_once(really: Any) -> Any:
    """Return the interpreter's replacement of `tl` by its own functions, done once in a launch.

    It is asked again for each function that the kernel calls, and looking through `tl` takes longer than most calls. A
    kernel's module need not import `tl` itself.
    """
    import numpy as np
    import triton.language as tl

    everything = SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
    launches: list[Any] = []

    def restore() -> None:
        scope, warned = launches.pop()
        scope.restore()
        np.seterr(**warned)

    def patch(function: Any) -> Any:
        if launches:
            return None  # of a call inside of a launch: nothing is restored after it
        launches.append((really(everything), np.seterr(all="ignore")))  # a GPU does not warn of infinities
        return SimpleNamespace(restore=restore)

    return patch
