"""`@triton.autotune` as constants of a kernel file: its configs are what a search begins with.

The decorator stays, with one config that the constants fill in: Triton does not benchmark a single config, launches and
grids stay as they are, and on the way back only the list has to be written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
from libcst import matchers

from ...core import KernelError, Value
from ...core.space_inference import suggest
from ...core.syntax_tree import expression_tree, literal
from ..inlining.modules import Library, Meaning, Module, OwnName
from ..inlining.references import definition_of
from .running import evaluate

TRITON = ("triton", Library("import triton"))
_DEFAULTS: Mapping[str, Value | None] = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}
"""The arguments of `triton.Config` after its parameters, in order."""
_PRODUCT = re.compile(r"\bdot(_scaled)?\(")
LEAST_OF_PRODUCTS = 16
_ALWAYS = ("num_warps", "num_stages")
_PROGRAM = """
import json as _json
_FOUND = [{{**one.kwargs, **{{name: getattr(one, name, None) for name in NAMES}}, "pre_hook": bool(one.pre_hook)}}
    for one in {0}]
print("\\n" + _json.dumps([_FOUND, list({1})], default=lambda one: {{"": repr(one)}}))
""".replace("NAMES", repr(tuple(_DEFAULTS)))


@dataclass(frozen=True)
class Autotuned:
    """A kernel under `@triton.autotune`."""

    module: str
    kernel: str
    """Its name in its module."""
    configs: tuple[Mapping[str, Value], ...]
    """Each with num_warps and num_stages, and with num_ctas and maxnreg where one of them sets it."""
    key: tuple[str, ...]
    """The arguments that say when another config may be best."""
    expression: cst.CSTNode = field(compare=False)
    """The list in the decorator."""
    least: int = 1
    """The smallest tile that is worth a try: what a product of tiles takes."""

    def constants(self, prefix: str = "") -> dict[str, str]:
        """Return the name of the constant for each parameter."""
        return {name: f"{prefix}{name.upper()}" for name in self.configs[0]}

    def single(self, constants: Mapping[str, str]) -> str:
        """Return the list with one config, which the constants fill in."""
        return f"[{config_text({name: constants[name] for name in self.configs[0]})}]"


def config_text(values: Mapping[str, str]) -> str:
    """Return a `triton.Config` of these expressions by name."""
    kwargs = ", ".join(f'"{name}": {text}' for name, text in values.items() if name not in _DEFAULTS)
    options = "".join(f", {name}={values[name]}" for name in _DEFAULTS if name in values)
    return f"triton.Config({{{kwargs}}}{options})"


def autotuned(module: Module, statement: cst.CSTNode) -> Autotuned | None:
    """Read the decorator of a kernel; None where there is none.

    Raises `KernelError` for a key that is no argument, and for configs that cannot be evaluated or carried over.
    """
    call = _decorator(module, statement)
    if call is None:
        return None
    assert isinstance(statement, cst.FunctionDef)
    name, where = statement.name.value, f"{module}, line {module.line(statement)}"
    configs, key = _argument(call, 0, "configs"), _argument(call, 1, "key")
    if configs is None or key is None:
        raise KernelError(f"{where}: the autotuner of {name} has no configs or no key")
    found, keys = _evaluated(module, configs, key, f"{where}: the configs of {name}")
    parameters = [item.name.value for item in (*statement.params.params, *statement.params.kwonly_params)]
    if unknown := [item for item in keys if item not in parameters]:
        raise KernelError(
            f"{where}: the key of {name} names {', '.join(unknown)}, which is no argument of it; "
            f"these are {', '.join(parameters)}"
        )
    if unknown := sorted({item for config in found for item in config if item not in (*parameters, *_DEFAULTS)}):
        raise KernelError(f"{where}: a config of {name} sets {', '.join(unknown)}, which is no argument of it")
    least = LEAST_OF_PRODUCTS if _PRODUCT.search(module.code(statement)) else 1
    return Autotuned(module.name, name, tuple(found), tuple(keys), configs, least)


def list_of_configs(module: Module, statement: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the expression of the configs in the decorator of a kernel; None where there is none."""
    call = _decorator(module, statement)
    return None if call is None else _argument(call, 0, "configs")


def _decorator(module: Module, statement: cst.CSTNode) -> cst.Call | None:
    decorators = [item.decorator for item in statement.decorators] if isinstance(statement, cst.FunctionDef) else []
    return next((item for item in decorators if isinstance(item, cst.Call) and _is_autotune(module, item)), None)


def constants_of(kernels: Sequence[Autotuned]) -> list[dict[str, str]]:
    """Return each kernel's constants; with the kernel's name where several kernels have the same parameter."""
    if len(kernels) < 2:
        return [item.constants() for item in kernels]
    return [item.constants(f"{item.kernel.strip('_').upper()}_") for item in kernels]


def declarations(kernels: Sequence[Autotuned], constants: Sequence[Mapping[str, str]]) -> str:
    """Return the constants with the first config's values, the search space, and all configs as those to try first."""
    if not kernels:
        return ""
    first: dict[str, Value] = {}
    for one, names in zip(kernels, constants, strict=True):
        first |= {names[name]: value for name, value in one.configs[0].items()}
    configs = [
        {**first, **{names[name]: value for name, value in config.items()}}
        for one, names in zip(kernels, constants, strict=True)
        for config in one.configs
    ]
    least = min((item.least for item in kernels), default=1)
    near = {name: [item for item in values if _worth(name, item, least)] for name, values in suggest(first).items()}
    space = {name: sorted({*near.get(name, ()), *(item[name] for item in configs)}, key=_order) for name in first}
    lines = [f"{name} = {value!r}" for name, value in first.items()]
    lines += ["", "SEARCH_SPACE = {", *(f"    {name!r}: {values!r}," for name, values in space.items()), "}"]
    unique = list(dict.fromkeys(repr(item) for item in configs))
    return "\n".join([*lines, "CONFIGS = [", *(f"    {item}," for item in unique), "]"]) + "\n"


def _worth(name: str, value: Value, least: int) -> bool:
    return not name.rpartition("BLOCK")[1] or not isinstance(value, int) or value >= least


def _order(value: Value) -> tuple[bool, Any]:
    return isinstance(value, str), value


def _is_autotune(module: Module, decorator: cst.Call) -> bool:
    return library_path(module, decorator.func) in ("triton.autotune", "triton.runtime.autotuner.autotune")


def library_path(module: Module, node: cst.BaseExpression) -> str:
    """Return the full name of what an expression takes from a library: 'triton.autotune'; '' for anything else."""
    parts: list[str] = []
    inner: Any = node
    while isinstance(inner, cst.Attribute):
        parts.insert(0, inner.attr.value)
        inner = inner.value
    meaning = _library(module, inner.value) if isinstance(inner, cst.Name) else None
    if meaning is None:
        return ""
    words = meaning.statement.split("\n")[0].split()
    head = f"{words[1]}.{words[3]}" if words[0] == "from" else words[1] if "as" in words else words[1].partition(".")[0]
    return ".".join([head, *parts])


def lacks_triton(module: Module) -> bool:
    """Return whether `triton.Config` needs an import; a condition in the package may have imported it by this name."""
    return not isinstance(_meaning(module, "triton"), OwnName)


def _meaning(module: Module, name: str) -> Meaning | None:
    meaning = OwnName(module.name, name) if name in module.definitions else module.imports.get(name)
    if isinstance(meaning, OwnName):
        return definition_of(module.package, meaning.module, meaning.name, str(module))
    return meaning


def _library(module: Module, name: str) -> Library | None:
    """Return the library that a name stands for, also where another module imports it, or a condition."""
    meaning = _meaning(module, name)
    if not isinstance(meaning, OwnName):
        return meaning if isinstance(meaning, Library) else None
    there = module.package.module(meaning.module)
    statements = [there.tree.body[index] for index in there.definitions[meaning.name]]
    imports = [
        match for each in statements for match in matchers.findall(each, matchers.Import() | matchers.ImportFrom())
    ]
    found = [there.meanings(item).get(meaning.name) for item in imports]  # type: ignore[arg-type]
    return next((item for item in found if isinstance(item, Library)), None)


def _argument(call: cst.Call, place: int, name: str) -> cst.BaseExpression | None:
    named = next(
        (argument.value for argument in call.args if argument.keyword is not None and argument.keyword.value == name),
        None,
    )
    plain = [argument.value for argument in call.args if argument.keyword is None and not argument.star]
    return named or (plain[place] if place < len(plain) else None)


def _evaluated(
    module: Module, configs: cst.BaseExpression, key: cst.BaseExpression, what: str
) -> tuple[list[dict[str, Value]], list[str]]:
    """Return configs and key: literals as they stand, anything else by running what makes them."""
    try:
        raw, names = _literal(module.code(configs)), literal(module.code(key).strip())
    except ValueError:
        raw, names = evaluate(module, (configs, key), _PROGRAM, what, "write them as a list")
    if not raw:
        raise KernelError(f"{what} are none; give the kernel one at least")
    if any(item.pop("pre_hook") for item in raw):
        raise KernelError(f"{what} have a pre_hook, which a search cannot carry over; do its work in the launcher")
    plain = [{name: value for name, value in item.items() if name not in _DEFAULTS} for item in raw]
    if odd := [name for item in plain for name, value in item.items() if not isinstance(value, int | float | str)]:
        raise KernelError(f"{what}: {odd[0]} is neither a number nor a text; make it an argument of the kernel")
    if any(set(item) != set(plain[0]) for item in plain):
        raise KernelError(f"{what} do not all set the same parameters; name each in every config")
    kept = [
        name for name, default in _DEFAULTS.items() if any(item[name] != default for item in raw) or name in _ALWAYS
    ]
    if missing := [name for name in kept if any(item[name] is None for item in raw)]:
        raise KernelError(f"{what} set {missing[0]} in some and not in others; set it in each")
    return [{**found, **{name: one[name] for name in kept}} for found, one in zip(plain, raw, strict=True)], list(names)


def _literal(text: str) -> list[dict[str, Any]]:
    """Return the configs of a list of literals; `ValueError` for anything else."""
    node = expression_tree(text)
    if not isinstance(node, ast.List | ast.Tuple):
        raise ValueError
    found = []
    for elt in node.elts:
        if not isinstance(elt, ast.Call) or not ast.unparse(elt.func).endswith("Config") or len(elt.args) > 5:
            raise ValueError
        given = {name: ast.literal_eval(value) for name, value in zip(("kwargs", *_DEFAULTS), elt.args, strict=False)}
        given |= {str(word.arg): ast.literal_eval(word.value) for word in elt.keywords}
        values = given.pop("kwargs", None)
        if not isinstance(values, dict) or set(given) - {*_DEFAULTS, "pre_hook"}:
            raise ValueError
        found.append({**values, **_DEFAULTS, "pre_hook": False, **given})
    return found
