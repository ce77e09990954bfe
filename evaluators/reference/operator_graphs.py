"""Records the reference's graph of operators: a request of the reference worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.dynamic_size import FreeSize
from ...core.operator_graph import INPUT, REFERENCE, WEIGHT, OperatorGraph
from ...core.text import first_line
from ..guards.paths import words
from ..workers.channel import Message
from .drawn_reference import DrawnReference
from .free_sizes import dynamic_shapes, plain_size

WHOLE = ("scaled_dot_product_attention", "max_pool1d", "max_pool2d", "max_pool3d")
"""Operators that stay whole, although torch would decompose them."""
DECOMPOSED = words(
    """
    _softmax _safe_softmax _log_softmax native_layer_norm native_group_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training _native_batch_norm_legit_functional _batch_norm_with_update_functional rms_norm
    _fused_rms_norm nll_loss_forward linalg_vector_norm gelu silu leaky_relu elu hardtanh hardswish hardsigmoid softplus
    mish logsigmoid glu addcmul addcdiv
    """
)
"""Operators that torch would keep, although they consist of others."""


class GraphRequests:
    """The reference's graph; each method serves the request of its name."""

    REQUESTS = ("operator_graph",)

    def __init__(self, reference: DrawnReference) -> None:
        self._reference = reference

    def operator_graph(self, free: Sequence[Any] | None = None) -> Message:
        """Return as `graph` the fields of an `OperatorGraph`, or as `obstacle` why there is none.

        `free` is the name of a size that is free, with its range.
        """
        reference = self._reference
        reference.prepare(0)
        try:
            size = FreeSize(*free) if free is not None else None
            shapes = dynamic_shapes(reference.problem, size) if size is not None else None
            return {"graph": operator_graph(reference.model, reference.inputs, size, shapes), "obstacle": None}
        except Exception as error:  # of any part of torch.export
            return {"obstacle": first_line(f"{type(error).__name__}: {error}", 300)}
        finally:
            reference.release()


def operator_graph(
    model: Any, inputs: Sequence[Any], free: FreeSize | None = None, shapes: tuple[Any, ...] | None = None
) -> Message:
    """Export a model for these inputs and return the fields of an `OperatorGraph`; `shapes` are the dimensions that
    follow the `free` size.

    What it writes to weights that its results do not follow from is left out: running statistics of a norm. Raises what
    torch.export raises, and `ValueError` where it writes to others or to its inputs, or returns no tensors.
    """
    import torch
    from torch.utils._pytree import tree_unflatten

    if any(isinstance(item, list | tuple | dict) for item in inputs):
        raise ValueError("the reference takes a list of tensors as an argument")
    with torch.no_grad():
        try:
            program = torch.export.export(model, tuple(inputs), dynamic_shapes=shapes, strict=False)
        except torch._dynamo.exc.UserError as error:
            if free is None or "Constraints violated" not in str(error):
                raise
            raise ValueError(f"the reference fixes {free.name} or narrows its range, so it cannot be free") from None
        program = program.run_decompositions(_decompositions())
    signature = program.graph_signature
    if signature.user_inputs_to_mutate:
        raise ValueError(f"the reference writes to {', '.join(signature.user_inputs_to_mutate.values())}")
    written = [*signature.buffers_to_mutate.values(), *getattr(signature, "parameters_to_mutate", {}).values()]
    weights: Mapping[str, str] = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    constants = {
        **signature.inputs_to_lifted_tensor_constants,
        **getattr(signature, "inputs_to_lifted_custom_objs", {}),
    }
    if constants:
        raise ValueError("the reference makes a tensor of Python's values in its forward")
    positions = {name: place for place, name in enumerate(signature.user_inputs)}
    values: list[Message] = []
    for node in program.graph.nodes:
        if node.op == "output":
            continue
        if node.op == "placeholder":
            if not isinstance(node.meta.get("val"), torch.Tensor):
                continue
            origin = (WEIGHT, weights[node.name]) if node.name in weights else (INPUT, positions[node.name])
            values.append(_value(node, origin[0], [origin[1]], {}, free))
        elif not _is_size(node):
            operator = "getitem" if "getitem" in str(node.target) else str(node.target)
            values.append(_value(node, operator, _plain(node.args, free), _plain(dict(node.kwargs), free), free))
    outputs = [str(name) for name in signature.user_outputs]
    if not set(outputs) <= {value["name"] for value in values}:
        raise ValueError("the reference returns something else than tensors")
    by_name = {node.name: node for node in program.graph.nodes}
    for place, name in enumerate(outputs):
        if (ordered := _ordered(by_name[name], free)) is not None:
            values.append(ordered)
            outputs[place] = ordered["name"]
    form = _form(tree_unflatten(outputs, program.call_spec.out_spec))
    graph = OperatorGraph.model_validate({"values": values, "outputs": outputs, "form": form})
    needed = graph.ancestors(outputs)
    if kept := [target for target in written if {name for name in needed if weights.get(name) == target}]:
        raise ValueError(f"the reference's results follow from what it writes to: {', '.join(kept)}")
    values = [value for value in values if value["name"] in needed or value["operator"] in (INPUT, WEIGHT)]
    return {"values": values, "outputs": outputs, "form": form}


def _is_size(node: Any) -> bool:
    """Return whether a node computes sizes, or asserts something of them."""
    import torch

    of_sizes = isinstance(node.meta.get("val"), torch.SymInt | torch.SymBool | torch.SymFloat)
    return of_sizes or node.target is torch.ops.aten.sym_size.int or "_assert" in str(node.target)


def _ordered(node: Any, free: FreeSize | None) -> Message | None:
    """Return a copy of a transposed result that is contiguous in the reference: its operand lies there transposed.

    The graph's other values are contiguous, so that the result would be read against its order in memory.
    """
    if str(node.target) not in ("aten.permute.default", "aten.transpose.int") or not node.meta["val"].is_contiguous():
        return None
    copied = _value(node, "aten.clone.default", [{REFERENCE: node.name}], {"memory_format": "contiguous_format"}, free)
    return {**copied, "name": f"{node.name}_ordered"}


def _form(result: Any) -> str:
    """Return of what form a call's result is, of which the tensors' names are given. Raises `ValueError`."""
    if isinstance(result, str):
        return "tensor"
    if not isinstance(result, tuple | list) or not all(isinstance(item, str) for item in result):
        raise ValueError("the reference returns something else than tensors, or one tuple or list of them")
    return "list" if isinstance(result, list) else "tuple"  # a named one, too


def _decompositions() -> Any:
    import torch
    from torch._decomp import get_decompositions

    aten, table = torch.ops.aten, torch.export.default_decompositions()
    for name in WHOLE:
        for overload in getattr(aten, name).overloads():
            table.pop(getattr(getattr(aten, name), overload), None)
    table.update(get_decompositions([getattr(aten, name) for name in DECOMPOSED if hasattr(aten, name)]))
    table[aten.var_mean.correction] = _variance_and_mean
    return table


def _variance_and_mean(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    import torch

    dims = list(range(x.dim())) if dim is None else dim
    variance = torch.ops.aten.var.correction(x, dims, correction=correction, keepdim=keepdim)
    return variance, torch.ops.aten.mean.dim(x, dims, keepdim)


def _value(node: Any, operator: str, arguments: Any, keywords: Any, free: FreeSize | None = None) -> Message:
    import torch

    made = node.meta.get("val")
    tensors = [item for item in (made if isinstance(made, tuple | list) else [made]) if isinstance(item, torch.Tensor)]
    return {
        "name": node.name,
        "operator": operator,
        "arguments": arguments,
        "keywords": keywords,
        "shapes": [[plain_size(size, free) for size in tensor.shape] for tensor in tensors],
        "dtypes": [_text(tensor.dtype) for tensor in tensors],
    }


def _plain(argument: Any, free: FreeSize | None) -> Any:
    """Return an argument of a node as JSON has it."""
    import torch

    match argument:
        case torch.fx.Node() if _is_size(argument):
            if not isinstance(argument.meta["val"], torch.SymInt):
                raise ValueError("it computes with a size that is free")
            return plain_size(argument.meta["val"], free)
        case torch.fx.Node():
            return {REFERENCE: argument.name}
        case torch.SymInt():
            return plain_size(argument, free)
        case dict():
            dropped = ("device", "pin_memory", "layout")
            return {name: _plain(item, free) for name, item in argument.items() if name not in dropped}
        case list() | tuple():
            return [_plain(item, free) for item in argument]
        case bool() | int() | str() | None:
            return argument
        case float():
            return argument if abs(argument) < float("inf") else str(argument)  # JSON has neither infinity nor NaN
        case _:
            return _text(argument)


def _text(item: Any) -> str:
    return str(item).removeprefix("torch.")
