"""A user's function as a candidate and a problem, in place: both import the user's package."""

from __future__ import annotations

import ast
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...core import JointProblem, KernelError, OptionError, PythonKernel, TorchProblem
from ...core import Target as Processor
from ...core.language import known_languages, recognize
from ...core.languages import TRITON
from ...core.text import digest_of
from ...core.user_package import CandidateText, UserModule, UserPackage
from .autotuning import (
    Autotuned,
    autotuned,
    list_of_configs,
    literal_configs,
    with_single_configs,
)
from .launch_constants import with_launch_constants
from .launch_values import OWN
from .launches import Launched, launched, names_in
from .modules import ModuleText, UserModules
from .parameters import declarations, unique_constants
from .reach import Reach, reach
from .running import configs_of
from .table import read_table
from .target import Target, find_target, is_function

_LOG = logging.getLogger(__name__)
_RESERVED = ("ModelNew", "SEARCH_SPACE", "CONSTRAINTS", "CONFIGS", "WORKLOADS", "MATCHED")
_OUTPUTS = "OUTPUTS"
"""The constant of the inputs' file that names the arguments which count as results."""
_FIXED = "FIXED"
"""The constant of the inputs' file that names the arguments which are always as its function makes them."""
_CALL = """import torch
from kernelwright.evaluators.workers.user_call import called


class ModelNew(torch.nn.Module):
    def forward(self, *arguments):
        return called({function}, arguments{options})
"""
_PROBLEM = """import importlib

import torch
from kernelwright.evaluators.workers.user_call import called, fixed_inputs, laid_out

# {digest}
{constants}

def _named(module, path):
    found = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.function = _named({module!r}, {function!r})

    def forward(self, *arguments):
        return called(self.function, arguments)


def get_init_inputs():
    return []


def get_fixed(first, second):
    return fixed_inputs(first, second, _named({module!r}, {function!r}), {fixed!r})

"""
_GET_INPUTS = """
def get_inputs():
    return laid_out(_named({module!r}, {function!r})(torch.initial_seed(){sizes}))
"""


@dataclass(frozen=True)
class UserFunction:
    """A function, the problem and candidate made from it, and the data for writing a result back."""

    target: Target
    package: UserPackage
    kernels: tuple[Autotuned, ...]
    """Autotuned kernels whose config lists are replaced by the parameters."""
    launched: tuple[Launched, ...]
    """Launches that the other parameters set."""
    kernel: PythonKernel
    problem: TorchProblem


def translate(
    function: str, reference: str | None, inputs: str | None, environment: Mapping[str, str] = MappingProxyType({})
) -> UserFunction:
    """Return the function as a candidate, and the reference on its inputs as the problem that it solves.

    `function` and `reference` name callables, `inputs` a function of a seed or a YAML file; `environment` has the
    variables under which the package is imported. Raises `OptionError` or
    `KernelError` for what is missing.
    """
    if reference is None or inputs is None:
        missing = "reference" if reference is None else "inputs"
        raise OptionError(
            f"a function needs `{missing}`",
            "give `reference` FILE::NAME, a function of torch, and `inputs` FILE::NAME or a YAML file",
        )
    target, wanted = find_target(function, "kernel"), find_target(reference, "reference")
    drawn = find_target(inputs, "inputs") if is_function(inputs) else None
    tops = dict(target.place.tops)
    for other in (wanted, *([drawn] if drawn else [])):
        for name, path in other.place.tops.items():
            if tops.setdefault(name, path) != path:
                raise OptionError(f"{tops[name]} and {path} are both imported as {name}", "give one another name")
    modules = UserModules(tops)
    start = modules.get(target.place.module) or ModuleText(target.place.module, target.path)
    if _is_kernel(start, target.name):
        raise KernelError(f"{target} is a kernel; name the function that launches it")
    found = reach(modules, start, target.name)
    outputs, owner = _names(modules, drawn, _OUTPUTS), target.name.rpartition(".")[0]
    options = (f", outputs={outputs!r}" if outputs else "") + (f", owner={owner}" if owner else "")
    package = UserPackage(
        tops=tops,
        modules=tuple(UserModule(item.name, item.path, item.text) for item in found.modules),
        call=_CALL.format(function=target.name, options=options),
        environment=dict(environment),
    )
    kernels, rows = _with_constants(found, _autotuned(package, found), launched(modules, found))
    texts = {}
    for item in package.modules:
        own = [kernel for kernel in kernels if kernel.module == item.name]
        # In two steps, since both go by places: a list of configs and its single one have different lengths.
        texts[item.label] = with_single_configs(with_launch_constants(item.text, item.name, rows), own)
    said = "\n".join(item.text for item in found.modules)
    plain = _parsed(CandidateText("", texts, package.call).source, str(target), said)
    source = CandidateText(declarations(kernels, rows, plain.config if rows else None), texts, package.call).source
    kernel = replace(plain, source=source)
    problem = _problem(package, modules, target, wanted, drawn, inputs)
    return UserFunction(target, package, kernels, rows, kernel, problem)


def _is_kernel(module: ModuleText, name: str) -> bool:
    statements = module.definitions.get(name, ())
    decorators = [item for node in statements if isinstance(node, ast.FunctionDef) for item in node.decorator_list]
    return any(ast.unparse(item).partition("(")[0].endswith(("triton.jit", "prim_func")) for item in decorators)


def _parsed(source: str, name: str, text: str) -> PythonKernel:
    """Return the candidate; if no text imports a language, a name in the texts decides it."""
    try:
        return PythonKernel.parse(source, name)
    except KernelError as error:
        if "imports neither" not in str(error):
            raise
    named = [item for item in known_languages() if any(module in text for module in item.modules)]
    language = named[0] if named else TRITON
    found = recognize(language.modules)
    return PythonKernel(language, found[1] if found else Processor.CUDA, source, name)


def _autotuned(package: UserPackage, found: Reach) -> tuple[Autotuned, ...]:
    """Return the kernels whose configs can be parameters."""
    texts = {item.name: item for item in found.modules}
    functions = [
        (texts[name], function)
        for name in texts
        for function in found.kernels.get(name, ())
        if list_of_configs(function) is not None
    ]
    known = {(module.name, item.name): literal_configs(item) for module, item in functions}
    asked = [place for place, configs in known.items() if configs is None]
    if asked:
        said = "\n".join(module.text for module in found.modules)
        try:
            known |= dict(zip(asked, configs_of(package, asked, said), strict=True))
        except KernelError as error:
            _LOG.warning(f"{error}; they stay as they are, and are not searched")
    kernels = []
    for module, function in functions:
        configs = known[module.name, function.name]
        one = autotuned(module, function, *configs) if configs is not None else None
        kernels += [one] if one is not None else []
    return tuple(kernels)


def _with_constants(
    found: Reach, kernels: Sequence[Autotuned], rows: Sequence[Launched]
) -> tuple[tuple[Autotuned, ...], tuple[Launched, ...]]:
    """Return both with names for their constants that the texts do not use otherwise."""
    taken = {*_RESERVED, *(name for module in found.modules for name in (*module.definitions, *module.imports))}
    names = unique_constants([(item.kernel, list(item.configs[0])) for item in kernels], taken)
    taken |= {constant for given in names for constant in given.values()}
    taken |= {name for module in found.modules for name in names_in(module)}
    # What is not a number at the start has a long name: a tile of size 0 would mislead whatever goes by plain names.
    taken |= {item.name.upper() for item in rows if item.start == OWN}
    others = unique_constants([(item.kernel, [item.name]) for item in rows], taken)
    return (
        tuple(replace(kernel, constants=given) for kernel, given in zip(kernels, names, strict=True)),
        tuple(replace(item, constant=given[item.name]) for item, given in zip(rows, others, strict=True)),
    )


def _problem(
    package: UserPackage, modules: UserModules, target: Target, reference: Target, drawn: Target | None, inputs: str
) -> TorchProblem:
    """Return the reference and its inputs as a problem, at all its workloads if it names several."""
    files = [reference.path, *([drawn.path] if drawn else [])]
    digest = digest_of("\0".join([package.digest_text, *(path.read_text() for path in files)]))
    constants: dict[str, str] = {}
    if drawn is not None:
        there = modules.get(drawn.place.module) or ModuleText(drawn.place.module, drawn.path)
        sizes = _sizes(there, drawn)
        constants = dict(sizes)
        constants["WORKLOADS"] = repr(_workloads(there))
        if isinstance(matched := _literal(there, "MATCHED"), int | float):
            constants["MATCHED"] = repr(matched)
        given = "".join(f", {name}={name}" for name in sizes)
        ending = _GET_INPUTS.format(module=there.name, function=drawn.name, sizes=given)
    else:
        ending = read_table(Path(inputs)).source()
    lines = "".join(f"{name} = {value}\n" for name, value in constants.items())
    module = reference.place.module
    fixed = _names(modules, drawn, _FIXED)
    source = (
        _PROBLEM.format(digest=digest, constants=lines, module=module, function=reference.name, fixed=fixed) + ending
    )
    top = target.place.top if target.place.is_importable else target.path.stem
    identity = f"{top}/{target.name}"
    name = f"{target.place.module}_{target.name}".replace(".", "_")
    problem = TorchProblem(id=identity, name=name, source=source, path=str(reference.path), package=package)
    return JointProblem.of_all(problem)


def _sizes(module: ModuleText, target: Target) -> dict[str, str]:
    """Return the sizes of an input function, its parameters after the seed, with their defaults."""
    found = module.definitions.get(target.name, [None])[-1]
    if not isinstance(found, ast.FunctionDef):
        raise OptionError(f"`inputs` {target} is not a function of its file's top level", "define it with def")
    plain = [*found.args.posonlyargs, *found.args.args]
    if not plain:
        raise OptionError(f"`inputs` {target} takes no seed", "its first parameter is the seed, the others are sizes")
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(found.args.defaults)), *found.args.defaults]
    pairs = [*list(zip(plain, defaults, strict=True))[1:]]
    pairs += list(zip(found.args.kwonlyargs, found.args.kw_defaults, strict=True))
    if missing := [parameter.arg for parameter, default in pairs if default is None]:
        raise OptionError(f"`inputs` {target}: {missing[0]} has no default", "give each size one")
    return {parameter.arg: _size_text(module, default) for parameter, default in pairs if default is not None}


def _size_text(module: ModuleText, default: ast.expr) -> str:
    """Return a default as a text that needs nothing of its module: a constant of that gives its value."""
    known = _literal(module, default.id) if isinstance(default, ast.Name) else None
    return ast.unparse(default) if known is None else repr(known)


def _workloads(module: ModuleText) -> Mapping[str, Mapping[str, Any]]:
    """Return the literal WORKLOADS of the inputs' module; empty without one."""
    if "WORKLOADS" not in module.definitions:
        return {}
    found = _literal(module, "WORKLOADS")
    if not isinstance(found, dict) or not all(isinstance(sizes, dict) for sizes in found.values()):
        raise OptionError(
            f"WORKLOADS of {module.path} is not a dict of dicts of sizes, all literals", "write it as one"
        )
    return found


def _names(modules: UserModules, drawn: Target | None, constant: str) -> Sequence[str]:
    """Return the names of arguments that a constant of the inputs' file gives."""
    there = modules.get(drawn.place.module) if drawn is not None else None
    if there is None or constant not in there.definitions:
        return ()
    found = _literal(there, constant)
    if not isinstance(found, list | tuple) or not all(isinstance(name, str) for name in found):
        raise OptionError(f"{constant} of {there.path} is not a list of argument names", 'write it as ["out", "lse"]')
    return list(found)


def _literal(module: ModuleText, name: str) -> object:
    """Return the literal value of a module's constant; None for other values."""
    for statement in module.definitions.get(name, ()):
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            try:
                return ast.literal_eval(statement.value)
            except (ValueError, TypeError):
                return None
    return None
