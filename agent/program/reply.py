"""Extracts a kernel from a model's text, in the forms that models use."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Iterator

from ...core import Kernel, KernelError, Language, Problem, PythonKernel, Target, TorchProblem, source_lines
from ...core.syntax_tree import syntax_tree
from ..applied_rules import formatted
from ..proposer import NoKernelError

_FENCE = re.compile(r"[ \t]*(`{3,})[ \t]*([\w+-]*)[ \t]*")
_HEADER = re.compile(r"^Problem Name:\s*(\S+)", re.MULTILINE)
_START = re.compile(r"(import|from)\s+\w|[rR]?(\"\"\"|''')|#|@")
_CODE = re.compile(r"[ \t]|@|(def|class) |.*=|.*[(\[,]$")
_MODEL = "class ModelNew"
_WHOLE_FILE = "send the whole file, with class ModelNew, in one ```python block"


def kernel_of(text: str, problem: Problem, language: Language, target: Target) -> PythonKernel:
    """Return the kernel in a reply: in a fenced block, among prose, or as the whole text.

    Raises `NoKernelError`, with the fix, for a reply without a kernel, with several, cut off in the middle, with a
    syntax error, in another language, or for another problem.
    """
    source = source_of(text)
    if (mistake := _mistake(source)) is not None:
        raise NoKernelError(f"the reply is not valid Python: {mistake}; {_WHOLE_FILE}")
    try:
        kernel = PythonKernel.parse(source, "the reply")
    except KernelError as error:
        raise NoKernelError(f"{error}; {_WHOLE_FILE}") from None
    if (kernel.language, kernel.target) != (language, target):
        raise NoKernelError(
            f"the reply is a {kernel.language} kernel for {kernel.target}, and the one to improve is "
            f"{language} for {target}; stay with that"
        )
    _require_same_problem(kernel, problem)
    return kernel


def laid_out(kernel: PythonKernel) -> PythonKernel:
    """Return the kernel formatted by black, so that a diff shows real changes; unchanged if black fails."""
    from black.parsing import InvalidInput

    try:
        return formatted(kernel)
    except InvalidInput:
        return kernel


def source_of(text: str) -> str:
    """Return the Python source in a reply, which may have a syntax error.

    Raises `NoKernelError` for none, or several.
    """
    text = _plain(text)
    if _defines_model(text):
        return text.strip("\n") + "\n"
    lines = source_lines(text, keepends=True)
    fences = [number for number, line in enumerate(lines) if _FENCE.fullmatch(line.rstrip("\n"))]
    kernels = list(dict.fromkeys(_fenced_kernels(lines, fences)))
    if len(kernels) > 1:
        raise NoKernelError(f"the reply contains {len(kernels)} kernels and does not say which to use; send one")
    if kernels:
        return kernels[0]
    if (bare := _bare_kernel(lines)) is not None:
        return bare
    # The rest has a syntax error, which is the reason for the model.
    blocks = ["".join(lines[first + 1 : last]) for first, last in zip(fences[::2], fences[1::2], strict=False)]
    if (broken := next((block for block in blocks if _MODEL in block), None)) is not None:
        return broken
    if len(fences) % 2:
        raise NoKernelError(f"the reply ends in the middle of its code; {_WHOLE_FILE}, and shorter if need be")
    if fences:
        raise NoKernelError(f"the reply contains code, but no {_MODEL}; {_WHOLE_FILE}")
    if _MODEL in text and (start := next(_starts(lines), None)) is not None:
        return "".join(lines[start:])
    raise NoKernelError(f"the reply contains no kernel; {_WHOLE_FILE}")


def _plain(text: str) -> str:
    """Normalize line ends, and unescape code that was escaped once too often, as in JSON."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\n" in text.strip() or "\\n" not in text:
        return text
    quoted = text.strip() if text.strip().startswith('"') else f'"{text.strip()}"'
    try:
        return str(json.loads(quoted))
    except ValueError:
        return text.replace("\\n", "\n").replace('\\"', '"')


def _fenced_kernels(lines: list[str], fences: list[int]) -> Iterator[str]:
    """Yield the blocks that define the model; several ends are tried, since a docstring may contain fences."""
    for position, first in enumerate(fences):
        for last in fences[position + 1 :]:
            block = "".join(lines[first + 1 : last])
            # A block in a list is indented as a whole.
            whole = next((form for form in (block, textwrap.dedent(block)) if _defines_model(form)), None)
            if whole is not None:
                yield whole
                break


def _bare_kernel(lines: list[str]) -> str | None:
    """Return Python without fences, among lines of prose before and after."""
    for start in _starts(lines):
        end = len(lines)
        while _MODEL in (block := "".join(lines[start:end])):
            if (error := _error(block)) is None:
                if _defines_model(block):
                    return block.rstrip() + "\n"
                break
            # The parser finds the start of prose, unless the code has a mistake or is cut off.
            end = min(start + (error.lineno or 1), end) - 1
            if _CODE.match(lines[end]):
                break
    return None


def _starts(lines: list[str]) -> Iterator[int]:
    """Yield the lines at which a file may start."""
    return (number for number, line in enumerate(lines) if _START.match(line))


def _error(source: str) -> SyntaxError | None:
    try:
        syntax_tree(source)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError):  # a null byte, brackets without end
        return SyntaxError("it contains what no parser reads")
    return None


def _mistake(source: str) -> str | None:
    """Describe the syntax error; with the line itself, since a model counts lines badly."""
    error = _error(source)
    if error is None:
        return None
    lines = source_lines(source)
    at = error.lineno or 0
    line = f" ({lines[at - 1].strip()})" if 0 < at <= len(lines) else ""
    return f"line {at}: {error.msg}{line}"


def _defines_model(source: str) -> bool:
    if _MODEL not in source or _error(source) is not None:
        return False
    return any(isinstance(node, ast.ClassDef) and node.name == "ModelNew" for node in syntax_tree(source).body)


def _require_same_problem(kernel: Kernel, problem: Problem) -> None:
    described = ast.get_docstring(syntax_tree(kernel.source)) or ""
    header = _HEADER.search(described)
    if header and header[1].rstrip("_") != problem.name.rstrip("_"):
        raise NoKernelError(f"the reply is a kernel for {header[1]}; the problem here is {problem.name}")
    wanted, got = _arguments(TorchProblem.of(problem).source, "Model"), _arguments(kernel.source, "ModelNew")
    for method in ("__init__", "forward"):
        if method in wanted and method in got and not _accepts(got[method], wanted[method]):
            raise NoKernelError(
                f"ModelNew.{method} takes {_count(got[method])} and the problem's Model.{method} "
                f"{_count(wanted[method])}: this is a kernel for another problem, or its signature was changed; keep it"
            )


def _arguments(source: str, name: str) -> dict[str, ast.arguments]:
    for node in syntax_tree(source).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return {item.name: item.args for item in node.body if isinstance(item, ast.FunctionDef)}
    return {}


def _accepts(got: ast.arguments, wanted: ast.arguments) -> bool:
    """Return whether a call with the reference's arguments fits."""
    count = len(wanted.posonlyargs + wanted.args)
    most = len(got.posonlyargs + got.args)
    return got.vararg is not None or wanted.vararg is not None or most - len(got.defaults) <= count <= most


def _count(arguments: ast.arguments) -> str:
    names = [argument.arg for argument in arguments.posonlyargs + arguments.args][1:]
    return f"({', '.join(names)})"
