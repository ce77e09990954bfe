"""As many programs as the device runs at once, each of which computes many tiles of a product."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ....core import Parameter, PythonKernel
from ...analysis.edit import Edit, Edited, before, declaring, edited, put, with_arguments, with_parameters
from ...analysis.search import find_all
from ...analysis.source import add_constant, code, expression, fresh, statements, substitute, target_of
from ...analysis.triton.dots import dots_of
from ...analysis.triton.function import Function
from ...analysis.triton.kernel import Launch, TritonFile
from ..rule import Machine, Rewritten, with_source

_LOOP = "tile_pid"
_EMPTY = m.If(test=m.Comparison(left=m.BinaryOperation(left=m.Name(), operator=m.Multiply(), right=m.Name())))


@dataclass(frozen=True)
class PersistentGrid:
    """The function loops over the tiles that its program would have been many programs for.

    Program p of P takes the tiles p, p + P, ...; a parameter says whether the compiler merges this loop with that of
    the sum. Needs a function that is launched at one place, with one or two axes in the grid, no `return`, and the
    number of the device's multiprocessors. A parameter that the function changes gets a name of its own for each tile.
    """

    name = "persistent-grid"
    category = "parallelism"
    work = "products"
    why = "the next tile's loads start while the last one is stored, and no last wave is nearly empty"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with a persistent grid, or None where no product fits."""
        file = TritonFile.read(kernel)
        if file is None or machine.multiprocessors is None or _LOOP in file.taken:
            return None
        launches = [one for one in file.launched_once() if dots_of(one.function) and _fits(one)]
        if not launches:
            return None
        programs, flatten = fresh("PROGRAMS", file.taken), fresh("FLATTEN", file.taken)
        edits: dict[cst.CSTNode, Edit] = {}
        for launch in launches:
            _rewrite(file, launch, programs, flatten, edits)
        parameters = [
            Parameter(programs, [machine.multiprocessors, 2 * machine.multiprocessors], machine.multiprocessors),
            Parameter(flatten, [False, True], False),
        ]
        module = edited(file.module, edits)
        for parameter in reversed(parameters):
            module = add_constant(module, parameter.name, parameter.default)
        return Rewritten(
            with_source(kernel, declaring(kernel, module, parameters)),
            "gave each multiprocessor a program that loops over tiles",
            tuple(parameters),
        )


def _fits(launch: Launch) -> bool:
    """Return whether the launch has at most two axes, and the function nothing that a loop forbids."""
    body = [statement for statement in launch.function.node.body.body if not _is_guard(launch.function, statement)]
    if any(find_all(one, m.Return() | m.FunctionDef()) for one in body):
        return False
    counts = launch.function.calls("program_id", "num_programs")
    axes = [code(axis) for axis in launch.grid or ()]
    flat = 1 <= len(axes) <= 3 and axes[2:] in ([], ["1"])
    return flat and all(len(call.args) == 1 and code(call.args[0].value) in ("0", "1") for call in counts)


def _is_guard(function: Function, statement: cst.CSTNode) -> bool:
    """Return whether a statement is `if M * N == 0: return` with sizes that are not zero."""
    if not isinstance(statement, cst.If) or not m.matches(statement, _EMPTY):
        return False
    product = cst.ensure_type(cst.ensure_type(statement.test, cst.Comparison).left, cst.BinaryOperation)
    sizes = [function.literal(one) or "" for one in (product.left, product.right)]
    nothing = code(statement.test).endswith("== 0") and statement.orelse is None
    return nothing and all(one.isdigit() and one != "0" for one in sizes)


def _rewrite(file: TritonFile, launch: Launch, programs: str, flatten: str, edits: dict[cst.CSTNode, Edit]) -> None:
    """Add the edits of one launch and of its function."""
    axes = [code(axis) for axis in launch.grid or ()]
    while len(axes) > 1 and axes[-1] == "1":
        axes.pop()
    counts = [fresh(f"tiles_{axis}", file.taken) for axis in range(len(axes))]
    # With one axis too: in the interpreter the loop's variable itself would be a plain number.
    numbers = {"tl.program_id(0)": f"{_LOOP} % {counts[0]}", "tl.program_id(1)": f"{_LOOP} // {counts[0]}"}
    numbers |= {f"tl.num_programs({axis})": counts[axis] if axis < len(axes) else "1" for axis in (0, 1)}
    for call in launch.function.calls("program_id", "num_programs"):
        edits[call] = _bracketed(numbers[code(call)])
    add = with_parameters(counts, constexpr=False)
    flagged = with_parameters([flatten])

    def persistent(node: cst.CSTNode) -> Edited:
        function = _looped(launch.function, cst.ensure_type(node, cst.FunctionDef), counts, flatten)
        changed = add(function)
        assert isinstance(changed, cst.CSTNode)
        return flagged(changed)

    edits[launch.function.node] = persistent
    edits[launch.grid_node] = put(f"(min({programs}, {' * '.join(counts)}),)")
    edits[launch.node] = with_arguments({**{name: name for name in counts}, flatten: flatten})
    text = f"{', '.join(counts)} = {', '.join(axes)}\n"
    line = _assignment_of_grid(launch)
    if line is None:
        edits[launch.statement] = before(text)
    else:
        edits[line] = lambda _: statements(text)[0]


def _bracketed(text: str) -> Edit:
    node = expression(text)
    if isinstance(node, cst.BinaryOperation):
        node = node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return lambda _: node


def _assignment_of_grid(launch: Launch) -> cst.CSTNode | None:
    """Return the line that assigns the grid, if nothing but the launch uses it."""
    grid = launch.grid_node
    if not isinstance(grid, cst.Name) or len(find_all(launch.host, m.Name(grid.value))) != 2:
        return None
    line = m.SimpleStatementLine(body=[m.Assign(targets=[m.AssignTarget(m.Name(grid.value))])])
    return next(iter(find_all(launch.host, line)), None)


def _looped(before: Function, node: cst.FunctionDef, counts: list[str], flatten: str) -> cst.FunctionDef:
    """Return the function with its body in a loop over tiles; what does not depend on the tile stays before it."""
    pairs = zip(before.node.body.body, node.body.body, strict=True)
    kept = [new for old, new in pairs if isinstance(new, cst.BaseStatement) and not _is_guard(before, old)]
    assigned: dict[str, int] = {}
    for one in find_all(cst.IndentedBlock(kept), m.AssignTarget(m.Name()) | m.AnnAssign() | m.AugAssign()):
        name = code(target_of(one))
        assigned[name] = assigned.get(name, 0) + 1
    first = 0
    while first < len(kept) and _is_plain(kept[first], assigned):
        first += 1
    changed = {name: f"{name}_of_tile" for name in before.parameters if name in assigned}
    body = statements("".join(f"{new} = {old}\n" for old, new in changed.items()))
    for one in kept[first:]:
        renamed = substitute(one, changed)
        assert isinstance(renamed, cst.BaseStatement)
        body.append(renamed)
    ahead = f"for {_LOOP} in tl.range(tl.program_id(0), {' * '.join(counts)}, tl.num_programs(0), flatten={flatten}):\n"
    loop = cst.ensure_type(statements(f"{ahead}    pass\n")[0], cst.For)
    loop = loop.with_changes(body=cst.IndentedBlock(body))
    return node.with_changes(body=node.body.with_changes(body=[*kept[:first], loop]))


def _is_plain(statement: cst.CSTNode, assigned: dict[str, int]) -> bool:
    """Return whether a statement only names a number, a constant or a parameter, once in the function."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    inner = statement.body[0]
    if isinstance(inner, cst.Expr):
        return isinstance(inner.value, cst.SimpleString)
    if not isinstance(inner, cst.Assign | cst.AnnAssign):
        return False
    target = inner.targets[0].target if isinstance(inner, cst.Assign) else inner.target
    plain = isinstance(inner.value, cst.Integer | cst.Name | cst.Attribute)
    return plain and isinstance(target, cst.Name) and assigned.get(target.value) == 1
