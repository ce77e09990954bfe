"""Names of problems in datasets, and of the kernels made for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.core import KernelError
from kernelwright.corpus import find_kernel, list_problems
from kernelwright.corpus.names import kernelbench_number


@pytest.mark.parametrize(
    ("stem", "number"),
    [
        ("19_ReLU", "19"),
        ("10_3D_tensor_matrix_multiplication", "10"),
        ("2_10", None),
        ("1_36_optimized_1.443x", None),
        ("README", None),
    ],
)
def test_a_kernelbench_name_begins_with_a_number_and_then_a_word(stem: str, number: str | None) -> None:
    assert kernelbench_number(stem) == number


def test_a_dataset_lists_every_problem_and_no_result(tmp_path: Path) -> None:
    for name in ("11_4D_tensor_matrix_multiplication", "2_Standard", "1_2_optimized_1.5x"):
        path = tmp_path / "level1" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert [problem.id for problem in list_problems(tmp_path)] == ["level1/1_2", "level1/1_11"]


def test_a_folder_is_no_kernel_but_may_have_the_name_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("results", "level1/1_1"):
        (tmp_path / name).mkdir(parents=True)
    with pytest.raises(KernelError, match=r"^results is a folder; .* --folder results` shows them$"):
        find_kernel("results/", "triton")
    assert find_kernel("level1/1_1", "triton").problem == "level1/1_1"
