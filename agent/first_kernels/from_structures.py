"""Writes a kernel file from structures that cover the graph of operators of a reference."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ...core import PythonKernel, TorchProblem
from ...core.dynamic_size import DynamicSize, FreeSize, UndecidedSizeError
from ...core.operator_graph import INPUT, WEIGHT, GraphValue, OperatorGraph, referenced
from ...corpus.structures.catalogue import STRUCTURES
from ...corpus.structures.cover import CoverStep, GraphCover
from ...corpus.structures.elementwise import COPIES
from ...corpus.structures.emitter import RefusedError
from ...corpus.structures.helpers import used_helpers
from ...corpus.structures.region import LaunchParameter, SecondLaunch, Structure, WrittenKernel
from ...corpus.structures.views import base_of, is_creation, is_view, plain_name, split_of, with_ordered_results
from ..applied_rules import formatted
from ..rules import Machine, NotApplicableError
from ..rules.triton.split_precision import precision_choice
from .model_source import RANGE, SIZES, argument, forward_signature, imports, model
from .unsupported_code import UnsupportedCodeError
from .wrapper import weight_expression

_OPTIONS = {"num_warps": "NUM_WARPS", "num_stages": "NUM_STAGES"}
_TORCH_WORDS = re.compile(
    r"(float|int|uint|bfloat|complex)\d+(_e\dm\d\w*)?|bool|contiguous_format|channels_last(_3d)?|preserve_format|strided"
)


def structured_kernel(
    problem: TorchProblem, graph: OperatorGraph, library: Collection[str] | None = None
) -> PythonKernel:
    """Return the kernel. Raises `UnsupportedCodeError` where no structure fits any part of the graph.

    With `library`, torch's library has what these structures would compute, and may have all.
    """
    graph = with_ordered_results(graph)
    steps = _cover(graph, [item for item in STRUCTURES if item.name not in (library or ())])
    kernels = [step.kernel for step in steps if step.kernel is not None]
    if not steps or not (kernels or library is not None):
        reasons = ", ".join(dict.fromkeys(step.reason for step in steps)) or "nothing is computed"
        raise UnsupportedCodeError(f"no structure fits any part of it ({reasons})")
    signature = forward_signature(problem.source)
    forward = list(_Forward(graph, steps, [argument(signature, place) for place in _places(graph)]).statements())
    sources = [item.source for kernel in kernels for item in (kernel, kernel.second) if item is not None]
    parts = [*used_helpers(sources), *sources, model(problem, signature, forward)]
    top = [_header(problem, steps, graph), imports(problem, sources), *_constants(kernels)]
    source = "\n\n\n".join(["\n\n".join(filter(None, top)), *parts]) + "\n"
    kernel = PythonKernel.parse(source, problem.name)
    # fp32 products are IEEE here, too; a search may choose another precision.
    with contextlib.suppress(NotApplicableError):
        kernel = precision_choice("ieee").apply(kernel, Machine(cores=1)).kernel
    return formatted(kernel)


def replaceable(graph: OperatorGraph) -> list[frozenset[str]]:
    """Return for which structures of a graph's kernel torch's library may compute: each, all, and one with another."""
    used = {
        step.kernel.structure for step in _cover(with_ordered_results(graph), STRUCTURES) if step.kernel is not None
    }
    names = [item.name for item in STRUCTURES if item.in_library and item.name in used]
    sets = [frozenset([name]) for name in names] + [frozenset(names)]
    return list(dict.fromkeys(sets))


def _cover(graph: OperatorGraph, structures: Sequence[Structure]) -> list[CoverStep]:
    try:
        return GraphCover(graph, [item for item in structures if item.dynamic or graph.free is None]).steps()
    except (RefusedError, UndecidedSizeError) as refused:
        raise UnsupportedCodeError(str(refused)) from None


def _places(graph: OperatorGraph) -> list[int]:
    return [int(value.arguments[0]) for value in graph.values if value.operator == INPUT]


def _header(problem: TorchProblem, steps: Sequence[CoverStep], graph: OperatorGraph) -> str:
    names = [step.kernel.structure for step in steps if step.kernel is not None]
    number = len(names) + sum(step.kernel is not None and step.kernel.second is not None for step in steps)
    count = f"{number} Triton kernel{'s' if number > 1 else ''}"
    left = list(dict.fromkeys(plain_name(step.region.value) for step in steps if step.kernel is None))
    calls = f"; torch computes {', '.join(left)}" if left else ""
    kinds = ", ".join(dict.fromkeys(names))
    made = f"{count} from structures ({kinds}){calls}" if names else calls.removeprefix("; ")
    right = SIZES if graph.free is None else RANGE.format(free=graph.free)
    return f'"""{problem.name}: {made}.\n\n{right}\n"""'


def _named(parameters: Mapping[str, LaunchParameter], suffix: object) -> dict[str, str]:
    """Return by parameter the name of its constant, or its only value."""
    return {
        name: f"{_OPTIONS.get(name, name)}_{suffix}" if len(item.choices) > 1 else json.dumps(item.start)
        for name, item in parameters.items()
    }


def _second_suffix(number: int) -> str:
    """Return what ends the names of the constants of a kernel's second launch."""
    return f"{number}_2"


def _constants(kernels: Sequence[WrittenKernel]) -> Iterator[str]:
    """Yield the constants, their possible values, constraints and further starts."""
    values, choices, constraints, configs = [], [], [], []
    for number, kernel in enumerate(kernels):
        names = _named(kernel.parameters, number)
        launches = [(kernel.parameters, names)]
        if kernel.second is not None:
            own = kernel.second.parameters
            launches.append((own, _named(own, _second_suffix(number))))
        for parameters, constants in launches:
            for parameter, item in parameters.items():
                if len(item.choices) > 1:
                    values.append(f"{constants[parameter]} = {json.dumps(item.start)}")
                    choices.append(f'    "{constants[parameter]}": {json.dumps(list(item.choices))},')
        constraints += [f'    "{_renamed(text, names)}",' for text in kernel.constraints]
        for config in kernel.configs:
            whole = {names[parameter]: value for parameter, value in config.items() if names[parameter].isidentifier()}
            configs.append(f"    {json.dumps(whole)},")
    yield "\n".join(values)
    yield "\n".join(["SEARCH_SPACE = {", *choices, "}"]) if choices else ""
    yield "\n".join(["CONSTRAINTS = [", *constraints, "]"]) if constraints else ""
    yield "\n".join(["CONFIGS = [", *configs, "]"]) if configs else ""


def _launch(
    launch: WrittenKernel | SecondLaunch,
    settings: Mapping[str, str],
    names: Mapping[str, str],
    free: FreeSize | None,
) -> str:
    """Return a launch as a statement; `names` are those of the parameters in its grid."""
    grid = ", ".join(_renamed(text, names) for text in launch.grid)
    given = ", ".join(f"{parameter}={name}" for parameter, name in settings.items())
    head = launch.source[: launch.source.index(")")]
    sizes = [free.argument] if free is not None and re.search(rf"\b{free.argument}\b", head) else []
    return f"{launch.name}[({grid},)]({', '.join([*launch.buffers, *sizes])}, {given})"


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda found: names.get(found[0], found[0]), text)


class _Forward:
    """The statements of `forward`."""

    def __init__(self, graph: OperatorGraph, steps: Sequence[CoverStep], given: Sequence[str]) -> None:
        self._graph = graph
        self._steps = steps
        inputs = [value for value in graph.values if value.operator == INPUT]
        self._given = {value.name: expression for value, expression in zip(inputs, given, strict=True)}
        self._read = {name for step in steps if step.kernel is not None for name in step.reads}
        first = next(iter(self._given), None) or next(value.name for value in graph.values if value.operator == WEIGHT)
        self._device = f"{first}.device"

    def statements(self) -> Iterator[str]:
        """Yield them in order."""
        body = [statement for step in self._steps for statement in self._step(step)]
        body.append(self._result())
        words = set(re.findall(r"[A-Za-z_]\w*", "\n".join(body)))
        free = self._graph.free
        if free is not None and free.argument in words:
            yield f"{free.argument} = {self._free()}"
        for value in self._graph.values:
            if value.operator == INPUT and value.name in words:
                yield f"{value.name} = {self._given[value.name]}.contiguous()"
            elif value.operator == WEIGHT and value.name in words:
                yield f"{value.name} = {weight_expression(str(value.arguments[0]))}.contiguous()"
        yield from body

    def _free(self) -> str:
        """Return the free size as an expression over an input's sizes."""
        for name, given in self._given.items():
            for place, size in enumerate(self._graph.by_name[name].shape):
                match size:
                    case DynamicSize(coefficients=(offset, factor)):
                        found = f"{given}.shape[{place}]"
                        found = f"({found} - {offset})" if offset else found
                        return found if factor == 1 else f"{found} // {factor}"
        raise UnsupportedCodeError("no input has a dimension that is a multiple of the free size")

    def _step(self, step: CoverStep) -> Iterator[str]:
        value = step.region.value
        if step.kernel is None:
            yield from self._call(value)
            return
        for name in step.kernel.stored:
            item = self._graph.by_name[name]
            number = int(item.arguments[1]) if item.operator == "getitem" else 0
            whole = self._graph.by_name[item.operands[0]] if item.operator == "getitem" else item
            yield (
                f"{name} = torch.empty({list(item.shape)}, dtype=torch.{whole.dtypes[number]}, device={self._device})"
            )
        number, second = step.region.number, step.kernel.second
        names = _named(step.kernel.parameters, number)
        if second is None:
            yield _launch(step.kernel, names, names, self._graph.free)
            return
        for buffer in second.scratch:
            shape = ", ".join(_renamed(text, names) for text in buffer.shape)
            yield f"{buffer.name} = torch.empty([{shape}], dtype=torch.float32, device={self._device})"
        yield _launch(step.kernel, names, names, self._graph.free)
        own = _named(second.parameters, _second_suffix(number))
        call = _launch(second, {name: names[name] for name in second.shared} | own, names | own, self._graph.free)
        yield f"if {_renamed(second.condition, names)}:\n    {call}"

    def _call(self, value: GraphValue) -> Iterator[str]:
        arguments = [self._argument(item) for item in value.arguments]
        arguments += [f"{name}={self._argument(item)}" for name, item in value.keywords.items()]
        text = f"torch.ops.{value.operator}({', '.join(arguments)})"
        if len(value.shapes) == 1:
            yield f"{value.name} = {text}{self._order(value)}"
            return
        yield f"{value.name} = {text}"
        for user in self._graph.users[value.name]:
            part = self._graph.by_name[user]
            if part.operator == "getitem":
                yield f"{user} = {value.name}[{part.arguments[1]}]{self._order(part)}"

    def _order(self, value: GraphValue) -> str:
        """Return what puts the elements of a call's result in order, as kernels and some views need them."""
        strided = any(plain_name(self._graph.by_name[user]) == "as_strided" for user in self._graph.users[value.name])
        return ".contiguous()" if strided or value.name in self._read else ""

    def _result(self) -> str:
        results = [self._output(name) for name in self._graph.outputs]
        match self._graph.form:
            case "tensor":
                return f"return {results[0]}"
            case "tuple":
                return f"return ({', '.join(results)},)"
        return f"return [{', '.join(results)}]"

    def _output(self, name: str) -> str:
        base = self._graph.by_name[base_of(self._graph, name)]
        copied = base.operator in (INPUT, WEIGHT) and plain_name(self._graph.by_name[name]) in ("clone", "_to_copy")
        return f"{self._tensor(name)}.clone()" if copied else self._tensor(name)

    def _tensor(self, name: str) -> str:
        """Return a value that is in memory, or a view of one, as an expression of torch."""
        value = self._graph.by_name[name]
        if is_creation(value):
            arguments = [self._argument(item) for item in value.arguments]
            keywords = {**value.keywords, "device": None}
            arguments += [
                f"{key}={self._device if key == 'device' else self._argument(item)}" for key, item in keywords.items()
            ]
            return f"torch.ops.{value.operator}({', '.join(arguments)})"
        if not is_view(self._graph, value):
            return name
        operand = self._tensor(value.operands[0])
        whole = split_of(self._graph, value)
        if whole is not None:
            parts = [self._tensor(whole.operands[0]), *(self._argument(item) for item in whole.arguments[1:])]
            return f"torch.ops.{whole.operator}({', '.join(parts)})[{value.arguments[1]}]"
        operator = plain_name(value)
        if operator in ("view", "_unsafe_view", "reshape"):
            return f"{operand}.reshape({list(value.shape)})"
        if operator in COPIES:
            return operand
        arguments = [operand, *(self._argument(item) for item in value.arguments[1:])]
        return f"torch.ops.{value.operator}({', '.join(arguments)})"

    def _argument(self, item: Any) -> str:
        name = referenced(item)
        if name is not None:
            return self._tensor(name)
        if isinstance(item, list):
            return f"[{', '.join(map(self._argument, item))}]"
        if isinstance(item, str):
            if item.lstrip("-") in ("inf", "nan"):
                return f'float("{item}")'
            return f"torch.{item}" if _TORCH_WORDS.fullmatch(item) else json.dumps(item)
        return repr(item)
