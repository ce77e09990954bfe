"""`@triton.autotune` as parameters of a candidate: a search begins with its configs.

The decorator stays, with one config that the parameters fill in: Triton does not benchmark a single config, launches
and grids stay as they are, and on the way back only the list has to be written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core import Value
from .modules import ModuleText, functions_of
from .text_edits import with_expressions

DEFAULTS: Mapping[str, Value | None] = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}
"""The arguments of `triton.Config` after its parameters, in order."""
_PRODUCT = re.compile(r"\bdot(_scaled)?\(")
LEAST_OF_PRODUCTS = 16
_NO_LIMIT = "0"
"""Represents a `maxnreg` of None, since a constant needs a number."""
_ALWAYS = ("num_warps", "num_stages")
_HOOK = "pre_hook"
_OPTIONS = (*DEFAULTS, _HOOK)
_DICT = ""
"""Marks a config that is a dict, not a `triton.Config`."""
_ABSENT = 0
"""Stands for a parameter that a config does not set."""


@dataclass(frozen=True)
class Autotuned:
    """A kernel under `@triton.autotune`."""

    module: str
    kernel: str
    """The kernel's name in its module."""
    configs: tuple[Mapping[str, Value], ...]
    """Configs with num_warps and num_stages, and with num_ctas and maxnreg if one of them sets it."""
    key: tuple[str, ...]
    """The key: arguments for whose values another config may be best."""
    config_name: str
    """The module's spelling of `triton.Config`; empty if configs are dicts, as those of `tilelang.autotune`."""
    constants: Mapping[str, str]
    """The name of the constant for each parameter."""
    least: int = 1
    """The smallest tile to try: the smallest that a product of tiles accepts."""
    hooks: tuple[str, ...] = ()
    """The expressions of the configs' `pre_hook`s, numbered from 1 if they differ."""
    optional: frozenset[str] = frozenset()
    """Parameters that only some configs set; 0 stands for none."""

    @property
    def single(self) -> str:
        """The list with one config, which the constants fill in."""
        return f"[{self.config_text(self.constants)}]"

    def config_text(self, values: Mapping[str, str]) -> str:
        """Return a config of these expressions by name."""
        of_kernel = {name: text for name, text in values.items() if self.config_name == "" or name not in _OPTIONS}
        entries = ", ".join(filter(None, (self._entry(name, text) for name, text in of_kernel.items())))
        if not self.config_name:
            return f"{{{entries}}}"
        given = {name: values[name] for name in DEFAULTS if values.get(name, _NO_LIMIT) != _NO_LIMIT}
        if given.get("maxnreg", "").isidentifier():
            given["maxnreg"] += " or None"
        if self.hooks and (hook := self._hook(values.get(_HOOK, "1"))):
            given[_HOOK] = hook
        options = "".join(f", {name}={text}" for name, text in given.items())
        return f"{self.config_name}({{{entries}}}{options})"

    def measured(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """Return the part of a candidate's config that Triton's autotuner sees."""
        found = {name: config[constant] for name, constant in self.constants.items() if name != _HOOK}
        return {name: value for name, value in found.items() if name not in self.optional or value != _ABSENT}

    def _entry(self, name: str, text: str) -> str:
        if name in self.optional and text.isidentifier():
            return f'**({{"{name}": {text}}} if {text} else {{}})'
        return "" if name in self.optional and text == str(_ABSENT) else f'"{name}": {text}'

    def _hook(self, number: str) -> str:
        if number.isidentifier():
            return f"(None, {', '.join(self.hooks)})[{number}]"
        return self.hooks[int(number) - 1] if number != str(_ABSENT) else ""


def is_product(kernel: ast.FunctionDef) -> bool:
    """Return whether a kernel multiplies tiles."""
    return bool(_PRODUCT.search(ast.unparse(kernel)))


def list_of_configs(function: ast.FunctionDef) -> ast.expr | None:
    """Return the expression of the configs in a kernel's decorator, or None."""
    call = _decorator(function)
    return None if call is None else _argument(call, 0, "configs")


def literal_configs(function: ast.FunctionDef) -> tuple[list[dict[str, Any]], list[str]] | None:
    """Return configs and key as written in the text; None if code computes them."""
    call = _decorator(function)
    assert call is not None
    configs, key = _argument(call, 0, "configs"), _argument(call, 1, "key")
    try:
        if configs is not None and (dicts := _dicts(configs)):
            return dicts, []
        assert configs is not None and key is not None
        return _configs(configs), [str(item) for item in ast.literal_eval(key)]
    except (ValueError, TypeError, AssertionError):
        return None


def autotuned(
    module: ModuleText, function: ast.FunctionDef, configs: Sequence[Mapping[str, Any]], key: Sequence[str]
) -> Autotuned | None:
    """Return a kernel with its configs as parameters; None if its list must stay: with values that are not numbers
    or texts, or where 0 is a value that only some of its configs set.
    """
    if any(_DICT in item for item in configs):
        return _of_dicts(module, function, [{**item, _DICT: 0} for item in configs])
    plain = [{name: value for name, value in item.items() if name not in _OPTIONS} for item in configs]
    name = _config_name(module, function)
    if not configs or name is None or not _all_plain(plain):
        return None
    options = [{**item, "maxnreg": item.get("maxnreg") or 0} for item in configs]
    usual = {**DEFAULTS, "maxnreg": 0}
    kept = [
        name for name, default in usual.items() if name in _ALWAYS or any(item[name] != default for item in options)
    ]
    filled, optional = _filled(plain)
    if filled is None or any(item[name] is None for item in options for name in kept):
        return None
    found = [{**own, **{name: item[name] for name in kept}} for own, item in zip(filled, options, strict=True)]
    numbers = [int(item.get(_HOOK) or 0) for item in configs]
    if len(set(numbers)) > 1:
        found = [{**item, _HOOK: number} for item, number in zip(found, numbers, strict=True)]
    hooks = tuple(_hook_at(function, numbers.index(number)) for number in range(1, max(numbers) + 1))
    least = LEAST_OF_PRODUCTS if is_product(function) else 1
    constants = {name: name.upper() for name in found[0]}
    return Autotuned(module.name, function.name, tuple(found), tuple(key), name, constants, least, hooks, optional)


def _of_dicts(module: ModuleText, function: ast.FunctionDef, configs: Sequence[Mapping[str, Any]]) -> Autotuned | None:
    """Return a kernel of TileLang with its configs, which are dicts of its function's arguments."""
    plain = [{name: value for name, value in item.items() if name != _DICT} for item in configs]
    filled, optional = _filled(plain)
    if not plain or filled is None or not _all_plain(plain):
        return None
    constants = {name: name.upper() for name in filled[0]}
    return Autotuned(module.name, function.name, tuple(filled), (), "", constants, optional=optional)


def _all_plain(configs: Sequence[Mapping[str, Any]]) -> bool:
    return all(isinstance(value, int | float | str) for item in configs for value in item.values())


def _filled(configs: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]] | None, frozenset[str]]:
    """Return configs with the same parameters, 0 for those that a config does not set, and these parameters."""
    names = list(dict.fromkeys(name for item in configs for name in item))
    optional = frozenset(name for name in names if not all(name in item for item in configs))
    if any(item.get(name, 1) == _ABSENT for item in configs for name in optional):
        return None, optional
    return [{name: item.get(name, _ABSENT) for name in names} for item in configs], optional


def _hook_at(function: ast.FunctionDef, place: int) -> str:
    """Return the expression of a config's hook by the config's position: its own in a list of literals."""
    configs = list_of_configs(function)
    assert configs is not None
    own = configs.elts[place] if isinstance(configs, ast.List | ast.Tuple) and place < len(configs.elts) else None
    for word in own.keywords if isinstance(own, ast.Call) else ():
        if word.arg == _HOOK:
            return ast.unparse(word.value)
    return f"({ast.unparse(configs)})[{place}].{_HOOK}"


def with_single_configs(text: str, kernels: Sequence[Autotuned]) -> str:
    """Return a module's text with one config for each of its kernels. Lines keep their numbers."""
    by_name = {item.kernel: item for item in kernels}
    edits = []
    for function in functions_of(text):
        expression = list_of_configs(function) if function.name in by_name else None
        if expression is not None:
            single = by_name[function.name].single
            lines = (expression.end_lineno or expression.lineno) - expression.lineno
            edits.append((expression, f"{single[:-1]}{chr(10) * lines}]"))
    return with_expressions(text, edits)


def _decorator(function: ast.FunctionDef) -> ast.Call | None:
    calls = [item for item in function.decorator_list if isinstance(item, ast.Call)]
    # Packages have autotuners of their own, with the arguments of Triton's.
    named = [item for item in calls if ast.unparse(item.func).endswith("autotune")]
    return next((item for item in named if _argument(item, 0, "configs") is not None), None)


def _config_name(module: ModuleText, function: ast.FunctionDef) -> str | None:
    """Return a module's spelling of `triton.Config`: like the decorator, or by an import that it has."""
    call = _decorator(function)
    assert call is not None
    prefix = ast.unparse(call.func).rpartition(".")[0]
    if prefix:
        return f"{prefix}.Config"
    bound = {*module.imports, *module.definitions}
    return "Config" if "Config" in bound else "triton.Config" if "triton" in bound else None


def _argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    named = next((item.value for item in call.keywords if item.arg == name), None)
    plain = [item for item in call.args if not isinstance(item, ast.Starred)]
    return named or (plain[place] if place < len(plain) else None)


def _dicts(node: ast.expr) -> list[dict[str, Any]]:
    """Return the configs in a list of dicts, marked as such; empty for anything else."""
    found = []
    for elt in node.elts if isinstance(node, ast.List | ast.Tuple) else ():
        if isinstance(elt, ast.Call) and ast.unparse(elt.func) == "dict" and not elt.args:
            found.append({str(word.arg): ast.literal_eval(word.value) for word in elt.keywords})
        elif isinstance(elt, ast.Dict):
            found.append(dict(ast.literal_eval(elt)))
        else:
            return []
    return [{**item, _DICT: True} for item in found]


def _configs(node: ast.expr) -> list[dict[str, Any]]:
    """Return the configs in a list of literals. Raises `ValueError` for anything else."""
    if not isinstance(node, ast.List | ast.Tuple):
        raise ValueError
    found = []
    for elt in node.elts:
        if not isinstance(elt, ast.Call) or not ast.unparse(elt.func).endswith("Config") or len(elt.args) > 5:
            raise ValueError
        given = {name: ast.literal_eval(value) for name, value in zip(("kwargs", *DEFAULTS), elt.args, strict=False)}
        given |= {str(word.arg): ast.literal_eval(word.value) for word in elt.keywords}
        values = given.pop("kwargs", None)
        if not isinstance(values, dict) or set(given) - {*DEFAULTS, "pre_hook"}:
            raise ValueError
        found.append({**values, **DEFAULTS, "pre_hook": False, **given})
    return found
