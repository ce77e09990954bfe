"""Arguments and results of any form, as flat lists of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from kernelwright.evaluators.workers.user_call import (
    Layout,
    called,
    fixed_inputs,
    input_names,
    laid_out,
    result_parts,
)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class State:
    keys: Any
    length: int


def test_tensors_numbers_and_none_in_a_list_stay_as_they_are() -> None:
    x = torch.ones(2)
    assert laid_out((x, None, 1e-6, "sum")) == [x, None, 1e-6, "sum"]
    assert laid_out(x)[0] is x


def test_containers_come_to_the_function_as_the_user_made_them() -> None:
    x, y, z = (torch.full((2,), float(number)) for number in range(3))
    seen: dict[str, Any] = {}

    def function(given: Any, *, state: State, options: dict[str, Any]) -> Any:
        seen.update(given=given, state=state, options=options)
        return {"out": given.first + state.keys, "count": 3, "more": [options["scale"], None]}

    inputs = laid_out({"given": Pair(x, [y]), "state": State(z, 4), "options": {"scale": y, "mode": torch.float16}})
    assert isinstance(inputs[0], Layout) and all(isinstance(item, torch.Tensor) for item in inputs[1:])
    assert len(inputs) == 5
    result = called(function, inputs)
    assert len(result) == 2 and torch.equal(result[0], x + z) and result[1] is y
    assert isinstance(seen["given"], Pair) and seen["given"].second[0] is y
    assert seen["state"] == State(z, 4) and seen["options"]["mode"] is torch.float16


def test_what_is_written_counts_where_nothing_is_returned_or_outputs_are_named() -> None:
    def double(out: Any, x: Any, workspace: Any = None) -> None:
        out.copy_(2 * x)

    out, x, space = torch.zeros(2), torch.ones(2), torch.empty(2)
    assert called(double, [out, x]) == (out, x)
    assert called(double, [out, x, space], outputs=["out"]) is out
    assert torch.equal(out, 2 * x)


def test_a_method_gets_an_object_made_of_the_constructors_arguments() -> None:
    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def forward(self, x: Any) -> Any:
            return self.factor * x

    x = torch.ones(2)
    for made in ([3.0], {"factor": 3.0}):
        assert torch.equal(called(Scale.forward, laid_out({"self": made, "x": x}), owner=Scale), 3 * x)


def test_other_inputs_are_an_error() -> None:
    with pytest.raises(TypeError, match="the inputs are a int; return the arguments in order, or a dict by name"):
        laid_out(3)


def test_what_two_draws_have_alike_is_fixed_and_what_is_named() -> None:
    def norm(x: Any, table: Any, pages: Any) -> None: ...

    x, table, pages = torch.rand(4), torch.arange(4.0), [torch.ones(2), torch.zeros(2)]
    first, second = (
        laid_out({"x": x, "table": table, "pages": pages}),
        laid_out({"x": torch.rand(4), "table": table.clone(), "pages": [torch.rand(2), torch.rand(2)]}),
    )
    assert fixed_inputs(first, second, norm) == {2}
    assert fixed_inputs(first, second, norm, ["pages"]) == {2, 3, 4}
    assert fixed_inputs([x, table], [torch.rand(4), table], norm, ["x"]) == {0, 1}


class Mode(Enum):
    FAST = object()


def test_a_layout_is_told_alike_in_every_process() -> None:
    layout = laid_out({"x": torch.ones(2), "mode": Mode.FAST, "at": numpy.array([1, 2]), "more": [None, object()]})[0]
    wanted = "'x': TensorSlot(index=0), 'mode': Mode.FAST, 'at': ndarray([1, 2]), 'more': list(None, object)"
    assert layout.text == f"tuple(tuple(), dict({wanted}))"


def test_what_a_result_has_beside_tensors_is_kept_in_order() -> None:
    x = torch.ones(2)
    for result, parts in (
        (x, ()),
        ((x, [x]), ()),
        (None, ()),
        ((x, None, {"n": 3, "dtype": x.dtype}), ("tensor", "None", "3", "dtype(torch.float32)")),
        (State(x, 4), ("tensor", "4")),
    ):
        assert called(lambda given, result=result: result, [x]) is not None
        assert result_parts() == parts


def test_inputs_have_the_names_of_their_arguments() -> None:
    def norm(x: Any, pages: Any, eps: float = 0.1) -> None: ...

    x, y, z = (torch.ones(1) for _ in range(3))
    assert input_names([x, y, 1e-6], norm) == ["x", "pages", "eps"]
    assert input_names(laid_out({"pages": [y, z], "x": x}), norm) == ["numbers", "pages", "pages", "x"]
    assert input_names([x, y], None) == ["0", "1"]
