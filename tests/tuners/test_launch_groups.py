"""Groups of parameters that can be searched independently."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kernelwright.agent.first_kernels.from_inductor import first_kernel
from kernelwright.core import Config, PythonKernel, SearchSpace, TorchProblem
from kernelwright.core.generated_code import GeneratedCode
from kernelwright.core.space_inference import declared_space
from kernelwright.tuners.by_launch.groups import described, launch_groups

from .launching import kernel_of

KERNELS = Path(__file__).parents[2] / "corpus" / "kernels"
INDUCTOR = Path(__file__).parents[1] / "agent" / "first_kernels" / "inductor_h200.jsonl.xz"
NAMES = ["A", "B", "C", "D", "E"]


def names_of(kernel: PythonKernel, space: SearchSpace | None = None) -> list[tuple[str, ...]]:
    space = space or declared_space(kernel)
    assert space is not None
    return [group.space.names for group in launch_groups(kernel, space)]


def shipped(name: str) -> PythonKernel:
    return PythonKernel.parse((KERNELS / name).read_text())


def test_shipped_kernels() -> None:
    conv = ("BLOCK_CO", "BLOCK_P", "BLOCK_CI", "CONV_NUM_WARPS", "CONV_NUM_STAGES")
    assert names_of(shipped("triton/level2/2_61.py")) == [conv, ("NORM_BLOCK", "NORM_NUM_WARPS")]
    assert names_of(shipped("triton/level1/1_1.py")) == [], "one launch"
    assert names_of(shipped("triton/level1/1_40.py")) == [], "SPLITS decides about a buffer of both launches"
    kernel = shipped("tilelang/level2/2_61.py")
    (_, norm), space = launch_groups(kernel, declared_space(kernel)), declared_space(kernel)  # type: ignore[arg-type]
    assert space is not None and norm.launches == {"group_moments", "normalize"}
    assert described(launch_groups(kernel, space)) == "conv_relu (6 parameters), group_moments and normalize (2)"


def test_first_kernels_of_recorded_code() -> None:
    """Inductor's kernels are numbered, and so are their parameters."""
    found = 0
    for line in lzma.decompress(INDUCTOR.read_bytes()).splitlines():
        recorded: dict[str, Any] = json.loads(line)
        if recorded["id"] in ("level1/1_63", "level2/2_6", "level2/2_33", "level2/2_75"):
            problem = TorchProblem(id=recorded["id"], name=recorded["name"], source=recorded["reference"])
            groups = names_of(first_kernel(problem, GeneratedCode.model_validate(recorded["code"])))
            numbers = [{*re.findall(r"_(\d+)\b", " ".join(names))} for names in groups]
            assert len(groups) >= 3 and all(len(item) == 1 for item in numbers), (recorded["id"], groups)
            found += 1
    assert found == 4


def test_a_parameter_that_reaches_no_launch_may_matter_to_all() -> None:
    kernel = kernel_of({"A": 1, "B": 1})
    values = {"A": [1, 2], "B": [1, 2]}
    assert len(names_of(kernel, SearchSpace.of(values))) == 2
    unread = PythonKernel.parse(kernel.source + "C = 1\n")
    assert names_of(unread, SearchSpace.of({**values, "C": [1, 2]})) == []


def test_a_list_of_configs_has_no_parts() -> None:
    space = SearchSpace.listing([Config({"A": 1, "B": 2}), Config({"A": 2, "B": 1})])
    assert names_of(kernel_of({"A": 1, "B": 1}), space) == []


def test_one_group_with_a_choice_is_none() -> None:
    assert names_of(kernel_of({"A": 1, "B": 1}), SearchSpace.of({"A": [1, 2], "B": [1]})) == []


@settings(deadline=None, max_examples=60)
@given(
    values=st.dictionaries(st.sampled_from(NAMES), st.sampled_from([(1,), (1, 2), (1, 2, 4)]), min_size=2),
    pairs=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=3),
    size=st.integers(2, 6),
)
def test_every_parameter_is_in_one_group_and_joined_parts_are_configs(
    values: dict[str, tuple[int, ...]], pairs: list[tuple[str, str]], size: int
) -> None:
    constraints = [f"{a} * {b} <= SIZE" for a, b in pairs if a in values and b in values]
    space = SearchSpace.of(values, constraints, {"SIZE": size})
    groups = launch_groups(kernel_of(dict.fromkeys(values, 1)), space)
    if not groups:
        return
    assert sorted(name for group in groups for name in group.space.names) == sorted(values)
    assert sorted(launch for group in groups for launch in group.launches) == sorted(name.lower() for name in values)
    for a, b in pairs:
        if a in values and b in values:
            assert any({a, b} <= {*group.space.names} for group in groups)
    product = 1
    joined = [Config()]
    for group in groups:
        product *= group.space.size
        joined = [Config({**left, **part}) for left in joined for part in group.space]
    assert product == space.size
    assert set(joined) == set(space)
    assert all(group.part(config) in group.space for config in space for group in groups)
