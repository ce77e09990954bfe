"""docs/faults.md lists the tests of faults, and what they try."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from .test_files_and_clocks import NAMES
from .test_table import EVALUATIONS, KERNELS, PLACES, SURROUNDINGS

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "faults.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("|") and "`test_" in line
]
BESIDE = {
    "test_a_command_that_ends",
    "test_a_command_that_is_at_work_is_waited_for",
    "test_a_process_that_is_left_is_shown_with_its_stack_and_ended",
    "test_the_example_is_read",
    "test_what_we_draw_ourselves_stays",
    "test_a_damaged_list_of_trusted_projects_trusts_nothing",
    "test_a_link_in_the_place_of_a_lock_is_none",
    "test_what_another_user_locked_is_left_alone",
}
"""Details that are no faults of their own."""


def functions_in(path: Path) -> set[str]:
    found = (node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
    return {name for name in found if name.startswith("test_")}


def test_the_page_and_the_tests_are_the_same() -> None:
    listed = {name for _, _, tests in ROWS for name in re.findall(r"`(test_\w+)`", tests)}
    here = set(Path(__file__).parent.glob("test_*.py")) - {Path(__file__)}
    own = {name for path in here for name in functions_in(path)}
    assert own - BESIDE <= listed
    assert listed <= {name for path in TESTS.rglob("test_*.py") for name in functions_in(path)}


def test_the_page_names_each_fault_that_a_test_has_a_list_of() -> None:
    said = {name: fault for fault, _, tests in ROWS for name in re.findall(r"`(test_\w+)`", tests)}
    for test, faults in (
        ("test_a_kernel_that_cannot_be_used", KERNELS),
        ("test_a_place_that_cannot_be_written", PLACES),
        ("test_surroundings", SURROUNDINGS),
        ("test_an_evaluation_in_poor_surroundings", EVALUATIONS),
        ("test_a_kernel_files_name", NAMES),
    ):
        listed = said[test].removeprefix("named with ")
        assert listed == ", ".join(faults), test
    assert sum(len(re.split(r", (?!or )|, or | or ", fault)) for fault, _, _ in ROWS) >= 60
