"""The table of several kernels: which of them may be one operator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import KernelError, PythonKernel, TorchProblem
from kernelwright.core.language import Target
from kernelwright.core.languages import TILELANG
from kernelwright.deploy.description import FreeSize, OperatorDescription, require_size
from kernelwright.deploy.source import MeasuredKernel
from kernelwright.deploy.table import entries_of, environment_of

from .hand_made import REFERENCE

# The batch size is a local name of forward, which reads `scale` of the module.
SCALED = REFERENCE.replace("rows = 4", "rows, scale = 4, 2").replace(
    "        return x * x", "        rows = len(x)\n        return x * scale"
)


def measured(name: str, **sizes: Any) -> MeasuredKernel:
    problem = TorchProblem("level1/1_1", "scaled", SCALED, sizes=sizes)
    return MeasuredKernel(Path(name), PythonKernel(TILELANG, Target.CPU, "", name), {}, problem, ())


def described(rows: int, constructor: str = "[]", weight: int | None = None) -> OperatorDescription:
    return OperatorDescription(
        names=("x", "weight")[: 1 if weight is None else 2],
        weights=() if weight is None else ("weight",),
        arguments=(["float32", [rows, 8]], *([] if weight is None else [["float32", [weight]]])),
        types=("Tensor",) * (1 if weight is None else 2),
        outputs=1,
        returns_tuple=False,
        reference_has_own_tensors=False,
        kernel_has_own_tensors=False,
        value=None,
        constructor=constructor,
    )


@pytest.mark.parametrize(
    ("sizes", "constructors", "weights"),
    [
        ({"rows": 16}, ("[3]", "[2]"), (None, None)),
        ({"rows": 16}, ("[3]", "[2]"), (8, 8)),
        ({"rows": 16, "scale": 3}, ("[]", "[]"), (8, 8)),
    ],
)
def test_kernels_of_other_constants_are_another_operator(
    sizes: dict[str, int], constructors: tuple[str, str], weights: tuple[int | None, int | None]
) -> None:
    kernels = [measured("first.py"), measured("second.py", **sizes)]
    descriptions = [described(4, constructors[0], weights[0]), described(16, constructors[1], weights[1])]
    with pytest.raises(KernelError, match=r"second\.py and first\.py have other constants"):
        entries_of("scaled", kernels, descriptions, None)


def test_other_inputs_and_weights_tell_kernels_apart() -> None:
    kernels = [measured("first.py"), measured("second.py", rows=16), measured("third.py", rows=16, scale=3)]
    descriptions = [described(4, "[8]", 8), described(16, "[8]", 8), described(16, "[9]", 9)]
    assert len(entries_of("scaled", kernels, descriptions, None)) == 3


def test_neighbours_with_the_same_code_are_one_entry() -> None:
    sources = ('"""Evidence: 1"""\nA = 1\n', '"""Evidence: 2"""\nA = 1\n', "A = 2\n", "A = 1\n")
    problem = TorchProblem("level1/1_1", "scaled", SCALED)
    kernels = [
        MeasuredKernel(Path(f"{rows}.py"), PythonKernel(TILELANG, Target.CPU, source, "scaled"), {}, problem, ())
        for rows, source in zip((1, 4, 16, 64), sources, strict=True)
    ]
    descriptions = [
        replace(described(rows), arguments=(["float32", ["rows", 8]],), value=rows) for rows in (1, 4, 16, 64)
    ]
    found = entries_of("scaled", kernels, descriptions, FreeSize("rows", 1, 100))
    served = [(str(entry.measured.path), entry.serves and (entry.serves.low, entry.serves.high)) for entry in found]
    assert served == [("1.py", (1, 8)), ("16.py", (9, 32)), ("64.py", (33, 100))]


def test_a_size_that_the_model_reads_is_not_free() -> None:
    require_size([measured("first.py")], FreeSize("rows", 1, 8))
    with pytest.raises(KernelError, match=r"first\.py: its Model reads scale while it computes"):
        require_size([measured("first.py")], FreeSize("scale", 1, 8))


@pytest.mark.parametrize("name", ["OPERATOR", "Tensor"])
def test_an_argument_with_a_name_of_the_package(name: str) -> None:
    found = {"names": [name], "inputs": [["float32", [4], [0]]], "outputs": [["float32", [4], [0]]], "weights": {}}
    with pytest.raises(KernelError, match=f"every package has a name {name}; rename forward's argument"):
        OperatorDescription.of(Path("first.py"), None, {**found, "written": [], "packs": False, "lacks": []})


def test_what_a_header_says_of_its_machine_is_one_printable_line() -> None:
    """It stands in README.md, and the header may be anyone's."""
    found = environment_of({"device": "a |\n\n```sh\ncurl\x1b[2J", "torch": 2, "home": "/root"})
    assert found == {"device": "a | ```sh curl[2J", "torch": "2"}
