from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernelwright.core import Config, KernelError, MlirKernel, MlirProblem, ProblemError, Slot, Target
from kernelwright.core.languages.mlir import MLIR
from kernelwright.core.mlir_operation import Applied, Filled, Loop, Operation, TensorType

SLOT = Slot("tile = [@{tile_m}, @{tile_n // 2}]")
KERNEL = MlirKernel(
    MLIR,
    Target.CPU,
    "op\n",
    "module",
    pieces=("op {", SLOT, "}\n"),
    values={"tile_m": (8, 16), "tile_n": (4, 8)},
    constraints=("tile_m > tile_n",),
    first=(Config({"tile_m": 16, "tile_n": 8}),),
    plain="op\n",
)
PRODUCT = Operation(
    "matmul",
    "matmul_0",
    0,
    (Loop("M", 2), Loop("N", 3), Loop("K", 4, reduction=True)),
    (TensorType((2, 4), "f32"), TensorType((4, 3), "f32")),
    TensorType((2, 3), "f32"),
    (((("M", 1),), (("K", 1),)), ((("K", 1),), (("N", 1),)), ((("M", 1),), (("N", 1),))),
)


def test_marks_are_replaced_by_what_the_config_makes_of_them() -> None:
    bound = KERNEL.bind({"tile_m": 8, "tile_n": 4})
    assert bound.source == "op {tile = [8, 2]}\n"
    assert bound.bind({"tile_m": 16}).source == "op {tile = [16, 2]}\n"
    assert KERNEL.bind({}).source == "op\n"
    with pytest.raises(KernelError, match="the config lacks tile_n"):
        KERNEL.bind({"tile_m": 8})


def test_its_space_begins_with_the_likeliest_config() -> None:
    space = KERNEL.space(KERNEL.declared_values, KERNEL.declared_constraints)
    assert space.default == KERNEL.first[0]
    assert KERNEL.configs_in(space) == [KERNEL.first[0]]
    assert {config["tile_m"] for config in space} == {8, 16} and space.size == 3


def test_a_function_is_computed_step_by_step() -> None:
    zeros = Filled(TensorType((2, 3), "f32"), 1.0)
    problem = MlirProblem(
        "mlir/x", "x", "text", "f", PRODUCT.operands, (PRODUCT.result,), "text", (PRODUCT,),
        steps=(zeros, Applied(PRODUCT, (0, 1, 2))), returns=(3, 2),
    )  # fmt: skip
    lhs, rhs = inputs = problem.draw(7)
    product, start = problem.reference(inputs) or []
    np.testing.assert_allclose(product, lhs @ rhs + 1, rtol=1e-6)
    assert np.array_equal(start, np.ones((2, 3)))
    assert problem.integers == {"M": 2, "N": 3, "K": 4}


def test_elements_that_numpy_lacks_are_refused() -> None:
    assert (TensorType((2,), "bf16").bytes, TensorType((3,), "i1").bytes, TensorType((1,), "f8E4M3FN").bytes) == (
        4,
        3,
        1,
    )
    with pytest.raises(ProblemError, match="no random inputs of f8E4M3FN"):
        _ = TensorType((2,), "f8E4M3FN").dtype


def test_bf16_is_drawn_and_rounded_once_per_operation() -> None:
    narrow, wide = TensorType((4, 512), "bf16"), TensorType((512, 3), "bf16")
    product = replace(PRODUCT, loops=(Loop("M", 4), Loop("N", 3), Loop("K", 512, True)), operands=(narrow, wide))
    for element in ("f32", "bf16"):
        result = TensorType((4, 3), element)
        zeros, applied = Filled(result, 1.0), Applied(replace(product, result=result), (0, 1, 2))
        problem = MlirProblem(
            "mlir/x", "x", "text", "f", (narrow, wide), (result,), "text", (product,),
            steps=(zeros, applied), returns=(3,),
        )  # fmt: skip
        lhs, rhs = inputs = problem.draw(7)
        assert lhs.dtype == narrow.dtype and set(np.unique(lhs.astype(float))) == {-1, -0.5, 0, 0.5, 1}
        (found,) = problem.reference(inputs) or []
        exact = lhs.astype(float) @ rhs.astype(float) + 1
        assert found.dtype == result.dtype and np.array_equal(found, exact.astype(result.dtype))
