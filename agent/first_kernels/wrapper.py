"""The body of Inductor's `call` as the body of a `forward`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from ...core.generated_code import GeneratedCode
from ...core.syntax_tree import expression_tree, syntax_tree
from .kernels import GeneratedKernel
from .unsupported_code import UnsupportedCodeError

_DROPPED = {"assert_size_stride", "assert_alignment", "set_device"}
_LEFT_OUT = {"copy_if_misaligned", "get_raw_stream"}
CONVOLUTION = "torch.ops.aten.convolution.default"
"""Name of the library's convolution in the rewritten code."""
_LIBRARY = {"mm", "bmm", "addmm", "baddbmm", "_int_mm", "convolution"}


class Wrapper:
    """The statements of `forward`, and the torch functions that they call."""

    def __init__(self, code: GeneratedCode, kernels: Sequence[GeneratedKernel], names: Sequence[str]) -> None:
        """`names` are those of the arguments of `call`: of the weights, then of the inputs."""
        self._kernels = {kernel.name: kernel for kernel in kernels}
        self._form = code.form
        self.library: list[str] = []
        """Torch's operators that compute, in order."""
        call = _call(code.source)
        self._names = dict(zip(_arguments(call), names, strict=True))
        self.device = f"{names[-1]}.device" if names else "'cuda'"
        self.used: set[str] = set()
        """The members of `names` that the statements use."""
        self.statements = [statement for node in call.body for statement in self._statements(node)]

    def _statements(self, node: ast.stmt) -> Iterator[str]:
        match node:
            case ast.With(body=body):
                for statement in body:
                    yield from self._statements(statement)
            case ast.Assign(value=ast.Name(id="args")) | ast.Expr(value=ast.Call(func=ast.Attribute(attr="clear"))):
                return
            case ast.Assign(value=ast.Call(func=ast.Name(id=name))) if name in _LEFT_OUT:
                return
            case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))) if name in _DROPPED:
                return
            case ast.Delete(targets=targets):
                left = [target for target in targets if not (isinstance(target, ast.Name) and target.id in self._names)]
                if left:
                    yield ast.unparse(ast.Delete(targets=left))
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="run")) as call) if (
                name in self._kernels
            ):
                yield self._kernels[name].launch([ast.unparse(self._expression(argument)) for argument in call.args])
            case ast.Return(value=ast.Tuple(elts=outputs)):
                yield ast.unparse(ast.Return(self._result([self._expression(output) for output in outputs])))
            case ast.Assign() | ast.Expr():
                yield ast.unparse(ast.fix_missing_locations(_Names(self).visit(node)))
            case _:
                raise UnsupportedCodeError(f"the statement '{ast.unparse(node).splitlines()[0]}'")

    def _result(self, outputs: Sequence[ast.expr]) -> ast.expr:
        if self._form == "tensor":
            (output,) = outputs
            return output
        kind = ast.Tuple if self._form == "tuple" else ast.List
        return kind(elts=list(outputs), ctx=ast.Load())

    def _expression(self, node: ast.expr) -> ast.expr:
        found: ast.expr = _Names(self).visit(node)
        return found

    def renamed(self, name: str) -> str:
        """Return an argument's name in `forward`, or the name unchanged."""
        if name in self._names:
            self.used.add(self._names[name])
        return self._names.get(name, name)


class _Names(ast.NodeTransformer):
    """Renames arguments, and calls torch's own functions instead of Inductor's."""

    def __init__(self, wrapper: Wrapper) -> None:
        self._wrapper = wrapper

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(self._wrapper.renamed(node.id), node.ctx)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node.func:
            case ast.Name(id="empty_strided_cuda"):
                return _text(f"torch.empty_strided({{}}, {{}}, dtype={{}}, device={self._wrapper.device})", *node.args)
            case ast.Name(id="reinterpret_tensor"):
                return _text("torch.as_strided({}, {}, {}, {})", *node.args)
            case ast.Attribute(value=ast.Name(id="extern_kernels"), attr=name):
                if name not in _LIBRARY:
                    raise UnsupportedCodeError(f"a call of extern_kernels.{name}")
                self._wrapper.library.append(name)
                node.func = _text(CONVOLUTION if name == "convolution" else f"torch.{name}")
                if name == "convolution":
                    order = ("bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups")
                    by_name = {keyword.arg: keyword.value for keyword in node.keywords}
                    return ast.Call(node.func, [*node.args, *(by_name[item] for item in order)], [])
            case ast.Attribute():
                text = ast.unparse(node.func)
                if text.startswith("torch.ops."):
                    self._wrapper.library.append(text.split(".")[3] if text.count(".") > 2 else text)
        return node


def _text(form: str, *parts: ast.expr) -> ast.expr:
    return expression_tree(form.format(*map(ast.unparse, parts)))


def _call(source: str) -> ast.FunctionDef:
    for node in ast.walk(syntax_tree(source)):
        if isinstance(node, ast.FunctionDef) and node.name == "call":
            return node
    raise UnsupportedCodeError("code without a function 'call'")


def _arguments(call: ast.FunctionDef) -> list[str]:
    for node in call.body:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Name(id="args")):
                return [name.id for name in names if isinstance(name, ast.Name)]
    return []


def weight_expression(name: str) -> str:
    """Return a weight as an expression: 'net.0.weight' is `self.net[0].weight`."""
    found = "self"
    for part in name.split("."):
        found += f"[{part}]" if part.isdigit() else f".{part}"
    return found


def names_of(weights: Sequence[str], inputs: Mapping[int, str]) -> list[str]:
    """Return names for the arguments of `call`."""
    return [*(weight.replace(".", "_") for weight in weights), *inputs.values()]
