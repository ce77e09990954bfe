"""A user's function as a kernel file and a problem, both self-contained: none of them imports the user's package."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import black
import libcst as cst

from ...core import JointProblem, KernelError, OptionError, ProblemError, PythonKernel, TorchProblem
from ...core.syntax_tree import syntax_tree
from ..inlining.inliner import Inlined, inline
from ..inlining.modules import Library, Module, OwnName, Package
from ..inlining.roots import Roots
from .autotuning import TRITON, Autotuned, autotuned, constants_of, declarations, lacks_triton
from .running import Conditions
from .table import read_table
from .target import Target, find_target, is_function

LINE_LENGTH = 120
_TORCH = ("torch", Library("import torch"))
_KERNEL_NAMES = ("ModelNew", "SEARCH_SPACE", "CONSTRAINTS", "CONFIGS", "WORKLOADS")
_PROBLEM_NAMES = ("Model", "get_inputs", "get_init_inputs", "WORKLOADS", "MATCHED")
_MODEL = """
class {name}(torch.nn.Module):
    def forward(self{parameters}):
        return {function}({arguments})
"""
_WRITING_MODEL = """
class {name}(torch.nn.Module):
    def forward(self{parameters}):
        {function}({arguments})
        return tuple(one for one in [{names}] if isinstance(one, torch.Tensor))
"""
"""Of a function that returns nothing: what it writes is among its arguments."""
_GET_INPUTS = """
def get_inputs():
    found = {function}(torch.initial_seed(){sizes})
    if not isinstance(found, (tuple, list, torch.Tensor)):
        raise TypeError(f"{function} returns a {{type(found).__name__}}; return the arguments in order, as a list")
    return list(found) if isinstance(found, (tuple, list)) else [found]
"""
_NO_WEIGHTS = """
def get_init_inputs():
    return []
"""


@dataclass(frozen=True)
class UserFunction:
    """A function, what it became, and what is needed to bring a result back."""

    target: Target
    module: str
    inlined: Inlined
    name: str
    """Of the launcher, in the kernel file."""
    kernels: tuple[Autotuned, ...]
    constants: tuple[Mapping[str, str], ...]
    """Of each kernel: the constant by parameter."""
    kernel: PythonKernel
    problem: TorchProblem


def translate(function: str, reference: str | None, inputs: str | None) -> UserFunction:
    """Return the function as a kernel, and the reference on its inputs as the problem that it solves.

    `function` and `reference` name functions, `inputs` a function of a seed or a YAML file. Raises `OptionError`,
    `KernelError` or `ProblemError` for what is missing or cannot be inlined.
    """
    if reference is None or inputs is None:
        missing = "reference" if reference is None else "inputs"
        raise OptionError(
            f"a function needs `{missing}`",
            "give `reference` FILE::NAME, a function of torch, and `inputs` FILE::NAME or a YAML file",
        )
    target, wanted = find_target(function, "kernel"), find_target(reference, "reference")
    drawn = find_target(inputs, "inputs") if is_function(inputs) else None
    package = Package(Roots(target.path, wanted.path, *([drawn.path] if drawn else [])))
    module = package.module_of(target.path)
    conditions = Conditions()
    inlined, kernels, constants = _inlined(package, OwnName(module.name, target.name), conditions)
    name = inlined.names[OwnName(module.name, target.name)]
    source = _kernel_source(module, target, inlined, name, declarations(kernels, constants))
    kernel = PythonKernel.parse(source, str(target))
    problem = _problem(package, module, target, wanted, drawn, inputs, conditions)
    return UserFunction(target, module.name, inlined, name, kernels, constants, kernel, problem)


def _inlined(
    package: Package, wanted: OwnName, conditions: Conditions
) -> tuple[Inlined, tuple[Autotuned, ...], tuple[Mapping[str, str], ...]]:
    """Inline twice: the constants' names depend on how many kernels are autotuned."""
    found: dict[tuple[str, str], Autotuned] = {}

    def look(module: Module, statement: cst.CSTNode) -> Mapping[cst.CSTNode, str]:
        one = autotuned(module, statement)
        if one is None:
            return conditions.decided(module, statement)
        found[module.name, one.kernel] = one
        return {one.expression: "[]"}

    inline(package, [wanted], _KERNEL_NAMES, look)
    kernels = tuple(found.values())
    constants = tuple(constants_of(kernels))
    single = {place: one.single(names) for (place, one), names in zip(found.items(), constants, strict=True)}

    def write(module: Module, statement: cst.CSTNode) -> Mapping[cst.CSTNode, str]:
        place = (module.name, statement.name.value) if isinstance(statement, cst.FunctionDef) else ("", "")
        return {found[place].expression: single[place]} if place in single else conditions.decided(module, statement)

    reserved = {*_KERNEL_NAMES, *(name for names in constants for name in names.values())}
    lacking = any(lacks_triton(package.module(item.module)) for item in kernels)
    libraries = [_TORCH, *([TRITON] if lacking else [])]
    return inline(package, [wanted], reserved, write, libraries), kernels, constants


def _kernel_source(module: Module, target: Target, inlined: Inlined, name: str, declared: str) -> str:
    statement = module.tree.body[module.definitions[target.name][-1]]
    assert isinstance(statement, cst.FunctionDef)
    if any(
        module.code(item.decorator).rpartition(".")[2].startswith(("jit", "prim_func")) for item in statement.decorators
    ):
        raise KernelError(f"{target} is a kernel; name the function that launches it")
    imports, _, body = inlined.source.partition("\n\n")
    parts = (imports, declared, body, _model("ModelNew", name, inlined))
    return formatted("\n\n".join(part.strip("\n") for part in parts if part.strip()))


def formatted(source: str) -> str:
    """Return a source as black writes it, as the rules do."""
    return black.format_str(source, mode=black.Mode(line_length=LINE_LENGTH))


def _model(name: str, function: str, inlined: Inlined) -> str:
    """Return a module whose forward has the function's parameters, all to be given by position, and calls it."""
    text = next(piece.text for piece in inlined.pieces if function in piece.names)
    given = syntax_tree(text).body[-1]
    assert isinstance(given, ast.FunctionDef)
    plain, named = [*given.args.posonlyargs, *given.args.args], given.args.kwonlyargs
    if given.args.kwarg:
        raise KernelError(f"{function} takes **{given.args.kwarg.arg}; give its arguments names")
    known = [None] * (len(plain) - len(given.args.defaults)) + list(given.args.defaults)
    defaults = [*known, *given.args.kw_defaults]
    parts = [
        one.arg if value is None else f"{one.arg}={ast.unparse(value)}"
        for one, value in zip([*plain, *named], defaults, strict=True)
    ]
    arguments = [item.arg for item in plain]
    if given.args.vararg:
        parts, arguments = (
            [*parts[: len(plain)], f"*{given.args.vararg.arg}"],
            [*arguments, f"*{given.args.vararg.arg}"],
        )
    else:
        arguments += [f"{item.arg}={item.arg}" for item in named]
    parameters = "".join(f", {part}" for part in parts)
    names = ", ".join(part.partition("=")[0] for part in parts)
    template = _MODEL if _returns(given) else _WRITING_MODEL
    arguments_text = ", ".join(arguments)
    return template.format(name=name, parameters=parameters, function=function, arguments=arguments_text, names=names)


def _returns(function: ast.FunctionDef) -> bool:
    """Return whether a function returns a value, itself and not one within it."""
    open_: list[ast.AST] = list(function.body)
    while open_:
        node = open_.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            open_ += ast.iter_child_nodes(node)
    return False


def _problem(
    package: Package,
    module: Module,
    target: Target,
    reference: Target,
    drawn: Target | None,
    inputs: str,
    conditions: Conditions,
) -> TorchProblem:
    """Return the reference and its inputs as a problem, at all its workloads where it names several."""
    there = package.module_of(reference.path)
    wanted, sizes, table = [OwnName(there.name, reference.name)], dict[str, str](), ""
    if drawn is None:
        path = Path(inputs)
        table = read_table(path).source()
    else:
        other = package.module_of(drawn.path)
        sizes = _sizes(other, drawn)
        wanted.append(OwnName(other.name, drawn.name))
    try:
        inlined = inline(package, wanted, {*_PROBLEM_NAMES, *sizes}, conditions.decided, [_TORCH])
    except KernelError as error:
        raise ProblemError(f"reference or inputs cannot be inlined: {error}") from None
    parts = [inlined.source, "".join(f"{name} = {value}\n" for name, value in sizes.items()), table]
    if drawn is not None:
        parts.append(f"WORKLOADS = {_workloads(other)!r}\n")
        given = "".join(f", {name}={name}" for name in sizes)
        parts.append(_GET_INPUTS.format(function=inlined.names[wanted[1]], sizes=given))
    parts += [_model("Model", inlined.names[wanted[0]], inlined), _NO_WEIGHTS]
    source = formatted("\n\n".join(part.strip("\n") for part in parts if part.strip()))
    identity = f"{module.name.partition('.')[0]}/{target.name}"
    name = f"{module.name.replace('.', '_')}_{target.name}"
    problem = TorchProblem(id=identity, name=name, source=source, path=str(reference.path), withheld=package.names)
    return JointProblem.of_all(problem)


def _sizes(module: Module, target: Target) -> dict[str, str]:
    """Return the sizes of an input function, its parameters after the seed, with their defaults."""
    statement = module.tree.body[module.definitions[target.name][-1]]
    assert isinstance(statement, cst.FunctionDef)
    plain = list(statement.params.params)
    if not plain:
        raise OptionError(f"`inputs` {target} takes no seed", "its first parameter is the seed, the others are sizes")
    found = {}
    for item in (*plain[1:], *statement.params.kwonly_params):
        if item.default is None:
            raise OptionError(f"`inputs` {target}: {item.name.value} has no default", "give each size one")
        found[item.name.value] = module.code(item.default)
    return found


def _workloads(module: Module) -> dict[str, dict[str, object]]:
    """Return the literal WORKLOADS of the inputs' module; empty where it has none."""
    for index in module.definitions.get("WORKLOADS", ()):
        try:
            node = syntax_tree(module.code(module.tree.body[index]).strip()).body[0]
            found = (
                ast.literal_eval(node.value) if isinstance(node, ast.Assign | ast.AnnAssign) and node.value else None
            )
        except (ValueError, SyntaxError):
            found = None
        if not isinstance(found, dict) or not all(isinstance(sizes, dict) for sizes in found.values()):
            raise OptionError(f"WORKLOADS of {module} is no dict of dicts of sizes, all literals", "write it as one")
        return found
    return {}
