"""The Triton kernels of Inductor's code, as plain `@triton.jit` functions whose tile sizes are arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import libcst as cst

from ...core.generated_code import GeneratedCode
from ...core.syntax_tree import syntax_tree
from .choices import limits, loop_choices, template_choices
from .constant_branches import fold_constexpr_branches
from .dead_code import overridden, without_arguments
from .template_grids import template_grid
from .unsupported_code import UnsupportedCodeError

_MATH = {"rsqrt", "sqrt", "exp", "exp2", "log", "log2", "sin", "cos", "erf", "abs", "floor", "ceil", "fma"}
"""Functions that `tl` has, too, which also run in Triton's interpreter."""
_BLOCKS = ("XBLOCK", "YBLOCK", "ZBLOCK")
_CONSTANTS = {"num_warps": "NUM_WARPS", "num_stages": "NUM_STAGES"}
_OVERFLOWING = "Grid2DWithYZOverflow"
"""Inductor's function for grids whose second dimension overflows into the third."""
_MOST_ROWS = 65535
"""Programs in a grid's second dimension."""
_SIZE = re.compile(r"^    (\w+) = (\d+)$", re.MULTILINE)
_WIDE_SIZE = re.compile(r"\btl\.full\(\[\], (\d+), dtype=INDEX_DTYPE\)")
"""A size in a template with 64-bit indices, which make the program id 64 bits wide, too."""
_TILE = re.compile(r"^    (BLOCK_[MNK]|GROUP_M) : tl\.constexpr = (\d+)\n", re.MULTILINE)
_UNMASKED = re.compile(r"^    ([xyz])mask = tl\.full\(", re.MULTILINE)
_EVEN = re.compile(r"^    EVEN_K ?: tl\.constexpr = True$", re.MULTILINE)
_UNMASKED_SUM = re.compile(r"^ +(r\d+)_mask = tl\.full\(", re.MULTILINE)
_NUMEL = re.compile(r"^    ([xyz]|r\d+_)numel = (\d+)$", re.MULTILINE)
_OPERANDS = re.compile(r"'arg_\w+': '\*(\w+)'")


@dataclass(frozen=True)
class GeneratedKernel:
    """One kernel, ready to be written to a file and launched."""

    name: str
    """Inductor's."""
    number: int
    """Position among the kernels of the file."""
    source: str
    """The function, decorated with `@triton.jit`, after the functions that only it calls."""
    grid_type: str
    values: Mapping[str, int]
    """By argument: tile sizes, `num_warps`, `num_stages`."""
    choices: Mapping[str, Sequence[int]]
    limits: Sequence[str]
    """Constraints on the choices, in the arguments' names."""
    sizes: Mapping[str, int]
    """Numbers that the text gives names, such as M and BATCH."""
    grid_arguments: int
    """How many of a launch's arguments are its grid: three for a template."""

    @property
    def plain_name(self) -> str:
        """The name without Inductor's prefix: 'fused_gelu_0'."""
        return re.sub(r"^triton_(poi|per|red|tem|for|mm)_", "", self.name)

    @property
    def text(self) -> str:
        """The source of the kernel's functions, as written to the file."""
        plain = without_arguments(self.source, self.name, set(self._overridden.values()))
        return plain.replace(self.name, self.plain_name)

    @cached_property
    def _overridden(self) -> dict[int, str]:
        return overridden(self.source, self.name)

    @property
    def constants(self) -> dict[str, str]:
        """The module's constants by argument. A single value is written at the launch."""
        return {
            argument: f"{_CONSTANTS.get(argument, argument)}_{self.number}"
            for argument in self.values
            if len(self.choices[argument]) > 1
        }

    @property
    def constraints(self) -> list[str]:
        """Constraints on tile sizes: Inductor omits masks if all of its own tile sizes divide the size."""
        numels = dict(_NUMEL.findall(self.source))
        blocks = [f"{axis.upper()}BLOCK" for axis in _UNMASKED.findall(self.source)]
        found = [(numels[block[0].lower()], block) for block in blocks]
        sums = dict.fromkeys(_UNMASKED_SUM.findall(self.source))
        found += [(numels[f"{axis}_"], f"{axis.upper()}_BLOCK") for axis in sums if f"{axis}_" in numels]
        if _EVEN.search(self.source):
            found.append((str(self.sizes["K"]), "BLOCK_K"))
        even = [f"{size} % {self.constants[block]} == 0" for size, block in found if block in self.constants]
        return [*even, *(self._renamed(limit) for limit in self.limits)]

    def _renamed(self, text: str) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda found: self._written(found[0]), text)

    def launch(self, given: Sequence[str]) -> str:
        """Return a launch as Python, from the arguments of Inductor's."""
        passed = [argument for place, argument in enumerate(given) if place not in self._overridden]
        passed = passed[: len(passed) - self.grid_arguments]
        settings = [f"{argument}={self._written(argument)}" for argument in self.values]
        call = f"{self.plain_name}[{self._grid(given)}]("
        one_line = f"{call}{', '.join([*passed, *settings])})"
        if len(one_line) <= 100:
            return one_line
        return f"{call}\n    {', '.join(passed)},\n    {', '.join(settings)},\n)"

    def _written(self, argument: str) -> str:
        return self.constants.get(argument, str(self.values[argument]))

    def _grid(self, given: Sequence[str]) -> str:
        if self.grid_arguments:
            recorded = [int(item) for item in given[-self.grid_arguments :]]
            written = {argument: self._written(argument) for argument in self.values}
            found = template_grid({**self.sizes, **self.values}, {**self.sizes, **written}, recorded)
            return f"({', '.join(found)})"
        if self.grid_type not in ("Grid1D", "Grid2D", "Grid3D", _OVERFLOWING):
            raise UnsupportedCodeError(f"{self.name} has a grid of the kind {self.grid_type}")
        blocks = [block for block in _BLOCKS if block in self.values]
        numels = [item for item in given if item.isdigit()][: len(blocks)][::-1]  # x comes last
        sizes = [f"triton.cdiv({numel}, {self._written(block)})" for numel, block in zip(numels, blocks, strict=True)]
        if self.grid_type == _OVERFLOWING:
            x, rows = sizes
            parts = f"triton.cdiv({rows}, {_MOST_ROWS})"
            sizes = [x, f"triton.cdiv({rows}, {parts})", parts]
        return f"({', '.join(sizes)},)" if len(sizes) == 1 else f"({', '.join(sizes)})"


def kernels_of(code: GeneratedCode) -> Iterator[GeneratedKernel]:
    """Yield the kernels in the order of the code."""
    number = 0
    for node in ast.walk(syntax_tree(code.source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="async_compile"), attr=kind), args=[name, text, *_]):
                if kind != "triton":
                    raise UnsupportedCodeError(f"torch's compiler uses {kind} for it, not Triton")
                yield _kernel(ast.literal_eval(name), ast.literal_eval(text), number, code)
                number += 1


def _kernel(name: str, text: str, number: int, code: GeneratedCode) -> GeneratedKernel:
    text = _WIDE_SIZE.sub(r"\1", text)
    functions = [node for node in syntax_tree(text).body if isinstance(node, ast.FunctionDef)]
    (main,) = [node for node in functions if node.name == name]
    meta = _meta(main)
    source = "\n\n\n".join(_plain(text, node, f"{number}") for node in (*(set(functions) - {main}), main))
    configs = code.configs[name]
    values, choices = dict(configs[0]), loop_choices(configs)
    sizes = {key: int(value) for key, value in _SIZE.findall(source)}
    grid_arguments, operands = len(meta.get("extra_launcher_args", ())), set(_OPERANDS.findall(text))
    if grid_arguments:
        sizes |= {key: value for key, value in meta.get("config_args", {}).items() if isinstance(value, int)}
        recorded = _recorded_grid(code.source, name, grid_arguments)
        source, tiles = _with_tiles_as_arguments(source)
        changeable = template_grid({**sizes, **tiles}, {}, recorded) != list(map(str, recorded))
        values |= tiles
        choices |= template_choices(tiles, values, changeable)
        configs = (values,)
    width = max((int(bits) for operand in operands for bits in re.findall(r"\d+", operand)[:1]), default=0) // 8
    bounds = list(limits(configs, width))
    return GeneratedKernel(
        name, number, source, meta.get("grid_type", ""), values, choices, bounds, sizes, grid_arguments
    )


def _recorded_grid(source: str, name: str, count: int) -> list[int]:
    """Return the grid of a template's launch."""
    for node in ast.walk(syntax_tree(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=called), attr="run"), args=args) if called == name:
                return [ast.literal_eval(argument) for argument in args[-count:]]
    return []


def _meta(function: ast.FunctionDef) -> dict[str, Any]:
    """Return the literal entries of `inductor_meta` in a kernel's decorator."""
    keywords = [item for node in function.decorator_list if isinstance(node, ast.Call) for item in node.keywords]
    found = {}
    for keyword in keywords:
        if keyword.arg == "inductor_meta" and isinstance(keyword.value, ast.Dict):
            for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                try:
                    found[str(ast.literal_eval(key or ast.Constant("")))] = ast.literal_eval(value)
                except ValueError:  # an object of Inductor's
                    continue
    return found


def _plain(text: str, function: ast.FunctionDef, suffix: str) -> str:
    """Return a function without Inductor's decorators. Functions that it calls get names of this kernel."""
    body = "\n".join(text.splitlines()[function.lineno - 1 : function.end_lineno])
    module = cst.parse_module(f"@triton.jit\n{body}\n")
    module = module.visit(_OwnNames())
    code = (fold_constexpr_branches(module) if "tl.constexpr = " in body else module).code.strip()  # of a template
    return re.sub(r"\b_triton_helper_fn(\w+)", rf"combine\1_{suffix}", code)


class _OwnNames(cst.CSTTransformer):
    """Calls Triton's own functions where Inductor calls them by other names, and helpers by their own."""

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        owner, name = updated_node.value, updated_node.attr
        if not isinstance(owner, cst.Name):
            return updated_node
        if owner.value == "triton_helpers":
            return name
        if owner.value == "tl_math" or (owner.value in ("libdevice", "math") and name.value in _MATH):
            return cst.Attribute(cst.Name("tl"), name)
        return updated_node


def helper(text: str) -> str:
    """Return one of Inductor's functions in the form of a separate file."""
    return cst.parse_module(text).visit(_OwnNames()).code.strip()


def _with_tiles_as_arguments(source: str) -> tuple[str, dict[str, int]]:
    """Make a template's tile sizes arguments; return the text and their values."""
    tiles = {name: int(value) for name, value in _TILE.findall(source)}
    arguments = "".join(f", {name}: tl.constexpr" for name in tiles)
    return re.sub(r"(def \w+\([^)]*)\)", rf"\1{arguments})", _TILE.sub("", source), count=1), tiles
