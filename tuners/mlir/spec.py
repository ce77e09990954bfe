"""tuning_spec.mlir: schedules for builds whose MLIR is not edited (--iree-codegen-tuning-spec-path)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...core import MlirProblem
from ...core.mlir_operation import Operation
from .bindings import function_named, load, parsed, walk

_SPEC = """module @kernelwright_tuning_spec attributes {{
    iree_codegen.tuning_spec_with_default_entrypoint, transform.with_named_sequence}} {{
  transform.named_sequence @apply_op_config(
      %op: !transform.any_op {{transform.readonly}}, %config: !transform.any_param {{transform.readonly}}) {{
    transform.annotate %op "compilation_info" = %config : !transform.any_op, !transform.any_param
    transform.yield
  }}
{matchers}
  transform.named_sequence @__kernel_config(%variant_op: !transform.any_op {{transform.consumed}})
      -> !transform.any_op attributes {{iree_codegen.tuning_spec_entrypoint}} {{
    %res = transform.foreach_match in %variant_op
        {pairs}
      : (!transform.any_op) -> !transform.any_op
    transform.yield %res : !transform.any_op
  }}
}}"""
_MATCHER = """  transform.named_sequence @{name}(%op: !transform.any_op {{transform.readonly}})
      -> (!transform.any_op, !transform.any_param) {{
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %op {{
    ^bb0(%lhs: {lhs}, %rhs: {rhs}, %start: {start}):
      %placeholder = tensor.cast %start : {start} to {start}
    }} : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    %config = transform.param.constant {info} -> !transform.any_param
    transform.yield %op, %config : !transform.any_op, !transform.any_param
  }}"""


@dataclass(frozen=True)
class Spec:
    """A spec's text, and the operations that it cannot carry."""

    text: str
    """Text of the spec; empty without schedules."""
    left_out: tuple[str, ...]


def tuning_spec(problem: MlirProblem, infos: Mapping[str, str]) -> Spec:
    """Return a spec that gives every operation like those named its `compilation_info`, in MLIR, by its name.

    Operations are matched by kind and types, so identical ones share the last one's
    schedule. Those that are dispatches of their own are left out: IREE rewrites them before it looks into a spec.
    """
    with parsed(problem.prepared, problem.name) as module:
        body = walk(function_named(module, problem.function))
        chosen = [operation for operation in problem.operations if operation.name in infos]
        left_out = [item for item in chosen if body[item.position].parent.name == "flow.dispatch.region"]
        matchers: dict[str, _Matcher] = {}
        for schedule in chosen:
            for form in ("", "_generic") if schedule not in left_out else ():
                alone = _alone(body[schedule.position], schedule, bool(form))
                matchers[str(alone)] = _Matcher(f"match_{schedule.name}{form}", alone, schedule, infos[schedule.name])
        text = _written({matcher.name: matcher for matcher in matchers.values()}) if matchers else ""
    return Spec(text, tuple(item.name for item in left_out))


@dataclass(frozen=True)
class _Matcher:
    """A matcher of the spec, and the schedule that it applies."""

    name: str
    alone: Any
    """A module of the operation only."""
    described: Operation
    info: str

    @property
    def types(self) -> list[str]:
        return _types(self.described)


def _alone(operation: Any, described: Operation, generic: bool = False) -> Any:
    """Return a module with a function of this operation only, perhaps as `linalg.generic`."""
    ir, _ = load()
    types = _types(described)
    arguments = ", ".join(f"%{i}: {type_}" for i, type_ in enumerate(types))
    module = ir.Module.parse(f"func.func @alone({arguments}) -> {types[2]} {{ return %2 : {types[2]} }}")
    block = module.body.operations[0].regions[0].blocks[0]
    copy = operation.clone(ip=ir.InsertionPoint.at_block_begin(block))
    _connect(copy, block)
    block.operations[1].operation.operands[0] = copy.results[0]
    if generic:
        from iree.compiler.passmanager import PassManager

        PassManager.parse("builtin.module(func.func(linalg-generalize-named-ops))").run(module.operation)
    return module


def _types(described: Operation) -> list[str]:
    return [f"tensor<{type_}>" for type_ in (*described.operands, described.result)]


def _written(matchers: Mapping[str, _Matcher]) -> str:
    """Return the spec with each matcher's placeholder replaced by its operation."""
    ir, _ = load()
    texts = []
    for name, matcher in matchers.items():
        lhs, rhs, start = matcher.types
        texts.append(_MATCHER.format(name=name, lhs=lhs, rhs=rhs, start=start, info=matcher.info))
    pairs = ", ".join(f"@{name} -> @apply_op_config" for name in matchers)
    spec = ir.Module.parse(_SPEC.format(matchers="\n".join(texts), pairs=pairs))
    for placeholder in walk(spec.operation):
        if placeholder.name == "tensor.cast":
            alone = matchers[placeholder.parent.parent.attributes["sym_name"].value].alone
            operation = alone.body.operations[0].regions[0].blocks[0].operations[0]
            copy = operation.operation.clone(ip=ir.InsertionPoint(placeholder))
            _connect(copy, placeholder.block)
            placeholder.erase()
    spec.operation.verify()
    return str(spec)


def _connect(operation: Any, block: Any) -> None:
    """Let an operation take the arguments of a block."""
    for number, argument in enumerate(block.arguments):
        operation.operands[number] = argument
