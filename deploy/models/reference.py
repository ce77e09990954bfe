"""The text of a region: its normal form, its key, and its tensors as a problem file describes them."""

from __future__ import annotations

import ast
import hashlib
import platform
import re
from typing import Any

from ...core import ProblemError
from ...core.syntax_tree import literal, syntax_tree

CALLS = "CALLS"
"""Name of the constant of a recorded problem that says how often the region ran."""
SHARE = "SHARE"
"""Name of the constant of a recorded problem that says which part of a step the region took with Inductor's code."""
_TENSOR = re.compile(r"\w+\[[\d, ]*\]( strides \([\d, ]*\))?")


def region_key(text: str, where: str) -> str:
    """Return the key of a region's text on an architecture."""
    return hashlib.sha256(f"{where}\n{text}".encode()).hexdigest()[:32]


def reference_text(source: str) -> str:
    """Return the normal form of a problem's `Model`. Raises `ProblemError` if it is not the file of a region.

    Comments, order of the file and what makes the inputs do not matter; sizes, strides and dtypes stand in the
    annotations of `forward`.
    """
    try:
        tree = syntax_tree(source)
    except (SyntaxError, ValueError) as error:
        raise ProblemError(f"the region's problem is not Python: {error}") from None
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            if len(methods) == 1 and all(_is_described(item) for item in methods[0].args.args[1:]):
                return ast.unparse(node)
    raise ProblemError("the problem is not a region of a model: its Model.forward says no sizes, as recorded ones do")


def reference_tensors(source: str) -> list[list[Any]]:
    """Return [dtype, sizes] of each argument that a region's problem takes; `reference_text` must have accepted it."""
    (node,) = syntax_tree(reference_text(source)).body
    assert isinstance(node, ast.ClassDef)
    (forward,) = (item for item in node.body if isinstance(item, ast.FunctionDef))
    found: list[list[Any]] = []
    for argument in forward.args.args[1:]:
        assert isinstance(argument.annotation, ast.Constant)
        dtype, _, sizes = str(argument.annotation.value).partition("[")
        found.append([dtype, literal(f"[{sizes.partition(']')[0]}]")])
    return found


def architecture(device: str) -> str:
    """Return what code is compiled for: 'cuda sm_90', 'cpu x86_64 AVX512'."""
    import torch

    if device == "cuda":
        major, minor = torch.cuda.get_device_capability()
        return f"cuda sm_{major}{minor}"
    return f"cpu {platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


def _is_described(argument: ast.arg) -> bool:
    annotation = argument.annotation
    return isinstance(annotation, ast.Constant) and _TENSOR.fullmatch(str(annotation.value)) is not None
