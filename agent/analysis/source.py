"""Read and rewrite kernel source on its concrete syntax tree.

Rules look at loop nests inside `@T.prim_func` functions and replace statements. Text that a rule does not touch
stays byte for byte.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ...core import PythonKernel, Target
from ...core.languages import TILELANG

Statement = cst.BaseStatement
Expression = cst.BaseExpression


def parse(source: str) -> cst.Module:
    """Parse a module. Raises libcst.ParserSyntaxError."""
    return cst.parse_module(source)


def expression(text: str) -> Expression:
    """Parse one expression. Raises libcst.ParserSyntaxError."""
    return cst.parse_expression(text)


def statements(text: str) -> list[Statement]:
    """Parse source text into its statements."""
    return [s for s in cst.parse_module(text).body if isinstance(s, cst.BaseStatement)]


def code(node: cst.CSTNode) -> str:
    """Return the text of a node; an expression becomes one line without comments."""
    text = cst.Module(body=[]).code_for_node(node)
    return " ".join(text.split()) if isinstance(node, cst.BaseExpression) else text


def names(node: cst.CSTNode) -> set[str]:
    """Return every plain name in a node; of `a.b`, only `a`, and no keyword of an argument."""
    found: set[str] = set()
    left = [node]
    while left:
        one = left.pop()
        # `isinstance` takes ten times as long, since nodes are abstract classes.
        if type(one) is cst.Name:
            found.add(one.value)
        elif type(one) is cst.Attribute or type(one) is cst.Arg:
            left.append(one.value)  # not its keyword
        else:
            left.extend(_inside(one))
    return found


def _inside(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the nodes right inside of one in any order, a fifth of the time of `node.children`."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, (list, tuple)):
            yield from value
        elif _is_node(value.__class__):
            yield value


@functools.cache
def _is_node(kind: type) -> bool:
    return issubclass(kind, cst.CSTNode)


@functools.cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def substitute(node: cst.CSTNode, values: Mapping[str, str]) -> cst.CSTNode:
    """Replace names by expressions, in brackets where they are not plain."""
    replacements = {name: _bracketed(expression(text)) for name, text in values.items()}

    class Replace(cst.CSTTransformer):
        def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> Expression:
            return replacements.get(original_node.value, updated_node)

        def visit_Attribute_attr(self, node: cst.Attribute) -> None:
            return None

        def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expression:
            return updated_node.with_changes(attr=original_node.attr)

        def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
            return updated_node.with_changes(keyword=original_node.keyword)

    result = node.visit(Replace())
    assert isinstance(result, cst.CSTNode)
    return result


def replace_expression(node: cst.CSTNode, old: str, new: str) -> cst.CSTNode:
    """Replace every expression whose text is `old` by `new`."""
    replacement = _bracketed(expression(new))

    class Replace(cst.CSTTransformer):
        def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
            if isinstance(original_node, cst.BaseExpression) and code(bare(original_node)) == old:
                return replacement
            return super().on_leave(original_node, updated_node)  # type: ignore[return-value]

    result = node.visit(Replace())
    assert isinstance(result, cst.CSTNode)
    return result


def operand(text: str) -> str:
    """Return the text of an expression as it can stand in a product: in brackets where it is not plain."""
    return code(_bracketed(expression(text)))


def _bracketed(node: Expression) -> Expression:
    plain = isinstance(node, cst.Name | cst.Integer | cst.Float | cst.Subscript | cst.Call | cst.Attribute)
    return node if plain else node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def bare(node: cst.CSTNode) -> cst.CSTNode:
    """Return an expression without its outer brackets."""
    return node.with_changes(lpar=[], rpar=[]) if hasattr(node, "lpar") else node


@dataclass(frozen=True)
class Loop:
    """`for a, b in T.grid(M, N):`, `for a in T.serial(M):` or `for a in T.unroll(M):`."""

    kind: str
    variables: tuple[str, ...]
    extents: tuple[str, ...]
    body: tuple[Statement, ...]
    node: cst.For

    @property
    def only(self) -> Statement | None:
        """The single statement of the body, or None when there are more."""
        return self.body[0] if len(self.body) == 1 else None


def loop_of(node: cst.CSTNode | None) -> Loop | None:
    """Return the statement as a loop when it runs over T.serial, T.grid or T.unroll from zero, else None."""
    if not isinstance(node, cst.For) or node.orelse or not isinstance(node.body, cst.IndentedBlock):
        return None
    call = node.iter
    if not m.matches(call, m.Call(func=m.Attribute(m.Name("T"), m.Name("serial") | m.Name("grid") | m.Name("unroll")))):
        return None
    assert isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
    extents = tuple(code(arg.value) for arg in call.args)
    if any(arg.keyword for arg in call.args) or (call.func.attr.value != "grid" and len(extents) != 1):
        return None
    targets = [e.value for e in node.target.elements] if isinstance(node.target, cst.Tuple) else [node.target]
    variables = tuple(target.value for target in targets if isinstance(target, cst.Name))
    if len(variables) != len(extents) or len(targets) != len(extents):
        return None
    body = tuple(s for s in node.body.body if isinstance(s, cst.BaseStatement))
    return Loop(call.func.attr.value, variables, extents, body, node)


def make_loop(variables: Sequence[str], extents: Sequence[str], body: Iterable[Statement]) -> cst.For:
    """Build a serial loop or grid with this body."""
    kind = "serial" if len(variables) == 1 else "grid"
    header = f"for {', '.join(variables)} in T.{kind}({', '.join(extents)}):\n    pass\n"
    loop = statements(header)[0]
    assert isinstance(loop, cst.For)
    return loop.with_changes(body=cst.IndentedBlock(body=list(body)))


def rebuild(loop: Loop, body: Iterable[Statement], extents: Sequence[str] | None = None) -> cst.For:
    """Build the loop again with another body, and perhaps other extents."""
    new = make_loop(loop.variables, extents or loop.extents, body)
    kind = m.Attribute(m.Name("T"), m.Name("serial") | m.Name("grid"))
    if loop.kind == "unroll" and m.matches(new.iter, m.Call(func=kind)):
        new = new.with_deep_changes(new.iter, func=expression("T.unroll"))
    return new.with_changes(leading_lines=loop.node.leading_lines)


def nest_of(node: cst.CSTNode) -> list[Loop]:
    """Return a perfect nest: loops of any kind, of which each but the last contains only the next."""
    found: list[Loop] = []
    loop = loop_of(node)
    while loop is not None:
        found.append(loop)
        loop = loop_of(loop.only)
    return found


def is_window(loop: Loop) -> bool:
    """Return whether a loop walks a small sliding window, such as `T.grid(KS, KS)`.

    A window slides when some index adds one of its variables to another name, as in `x + kx`.
    """
    if len(loop.extents) < 2 or len(set(loop.extents)) > 1:
        return False
    parts = [names(expression(p)) for a in accesses(loop.node) for p in a.index if p != "*"]
    return any({variable} < part for variable in loop.variables for part in parts)


@dataclass(frozen=True)
class Access:
    """A buffer element that a statement reads or writes."""

    buffer: str
    index: tuple[str, ...]
    write: bool


def accesses(node: cst.CSTNode) -> list[Access]:
    """Return every subscript of a plain name below a node; an augmented target counts as read and written."""
    found: list[Access] = []
    targets: dict[int, bool] = {}

    class Visitor(cst.CSTVisitor):
        def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
            targets[id(node.target)] = False

        def visit_AugAssign(self, node: cst.AugAssign) -> None:
            targets[id(node.target)] = True

        def visit_Subscript(self, node: cst.Subscript) -> None:
            if isinstance(node.value, cst.Name):
                index = tuple(code(part.slice) for part in node.slice)
                if id(node) in targets:
                    found.append(Access(node.value.value, index, write=True))
                if targets.get(id(node), True):
                    found.append(Access(node.value.value, index, write=False))

        def visit_Expr(self, node: cst.Expr) -> None:
            # Statements such as T.clear(buffer), T.fill(buffer, ...), T.copy(a, b) touch whole buffers.
            if m.matches(node.value, m.Call(func=m.Attribute(m.Name("T")))):
                assert isinstance(node.value, cst.Call)
                for arg in node.value.args:
                    if isinstance(arg.value, cst.Name) and arg.keyword is None:
                        found.append(Access(arg.value.value, ("*",), write=True))

    node.visit(Visitor())
    return found


def target_of(node: cst.CSTNode) -> cst.BaseExpression:
    """Return what an assignment of any kind, or one of its targets, assigns to; of several, the first."""
    one = node.targets[0] if isinstance(node, cst.Assign) else node
    assert isinstance(one, cst.AssignTarget | cst.AnnAssign | cst.AugAssign)
    return one.target


def assignment(node: Statement | None) -> tuple[Expression, str, Expression] | None:
    """Return target, '=' or '+=', and value of a statement that is one assignment, else None."""
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1:
        return None
    inner = node.body[0]
    if isinstance(inner, cst.Assign) and len(inner.targets) == 1:
        return inner.targets[0].target, "=", inner.value
    if isinstance(inner, cst.AugAssign) and isinstance(inner.operator, cst.AddAssign):
        return inner.target, "+=", inner.value
    return None


Rewrite = Callable[[Statement, Sequence[Statement]], Sequence[Statement] | None]


def rewrite_kernels(module: cst.Module, rewrite: Rewrite) -> cst.Module:
    """Offer every statement inside the prim_funcs to `rewrite`, outer ones first.

    `rewrite(statement, after)` sees the statement and those that follow it in its block. It returns the statements
    that replace it, or None to continue inside the statement's own blocks.
    """

    class Kernels(cst.CSTTransformer):
        def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
            return _rewrite_blocks(updated_node, rewrite) if is_prim_func(updated_node) else updated_node  # type: ignore[return-value]

    return module.visit(Kernels())


def _rewrite_blocks(node: cst.CSTNode, rewrite: Rewrite) -> cst.CSTNode:
    body = getattr(node, "body", None)
    if not isinstance(body, cst.IndentedBlock):
        return node
    new: list[Statement] = []
    for position, statement in enumerate(body.body):
        assert isinstance(statement, cst.BaseStatement)
        replaced = rewrite(statement, [s for s in body.body[position + 1 :] if isinstance(s, cst.BaseStatement)])
        if replaced is None:
            inner = _rewrite_blocks(statement, rewrite)
            assert isinstance(inner, cst.BaseStatement)
            new.append(inner)
        else:
            new.extend(replaced)
    return node.with_changes(body=body.with_changes(body=new))


def is_prim_func(node: cst.FunctionDef) -> bool:
    """Return whether a function is decorated with T.prim_func."""
    prim_func = m.Decorator(m.Attribute(m.Name("T"), m.Name("prim_func")))
    return any(m.matches(decorator, prim_func) for decorator in node.decorators)


def fresh(wanted: str, taken: set[str]) -> str:
    """Return `wanted`, or the first free name of `wanted_2`, `wanted_3`, ..."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name


def add_constant(module: cst.Module, name: str, value: object) -> cst.Module:
    """Insert `name = value` before the first class or function, after the constants that are there."""
    return insert_before_definitions(module, f"{name} = {value!r}\n")


def insert_before_definitions(module: cst.Module, text: str) -> cst.Module:
    """Insert statements before the first class or function of a module."""
    position = next(
        (i for i, s in enumerate(module.body) if isinstance(s, cst.ClassDef | cst.FunctionDef)),
        len(module.body),
    )
    new = statements(text)
    first = new[0]
    if isinstance(first, cst.SimpleStatementLine | cst.FunctionDef):
        new[0] = first.with_changes(leading_lines=[cst.EmptyLine(), *first.leading_lines])
    return module.with_changes(body=[*module.body[:position], *new, *module.body[position:]])


def is_cpu_tilelang(kernel: PythonKernel) -> bool:
    """Return whether the kernel is TileLang for the CPU."""
    return kernel.language == TILELANG and kernel.target is Target.CPU


def tree_and_names(kernel: PythonKernel) -> tuple[cst.Module, set[str]]:
    """Return the syntax tree and all names that it uses."""
    module, found = _parsed(kernel.source)
    return module, set(found)


@functools.lru_cache(maxsize=64)
def _parsed(source: str) -> tuple[cst.Module, frozenset[str]]:
    """Trees do not change, and every rule reads the same kernel's."""
    module = parse(source)
    return module, frozenset(names(module))
