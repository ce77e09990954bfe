"""What rules are built with: a Change and its edits, reasons, combinations, text of expressions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import libcst as cst
import pytest
from kernelwright.agent.analysis.applicability import NotApplicableError, need, require
from kernelwright.agent.analysis.change import Change, Machine, Rewritten
from kernelwright.agent.analysis.source import code
from kernelwright.agent.analysis.template import match, matches
from kernelwright.agent.analysis.triton import TritonKernel
from kernelwright.agent.rules.rule import After, Completed, rule
from kernelwright.core import PythonKernel

from .triton_rule_cases import shipped

MACHINE = Machine(cores=1)


def change_of(name: str) -> tuple[TritonKernel, Change]:
    kernel = shipped(name).kernel
    return TritonKernel.read(kernel), Change(kernel, MACHINE)


def test_what_was_done_for_an_item_that_does_not_fit_is_forgotten() -> None:
    kernel, change = change_of("2_61")
    first, second = kernel.launched_once()

    def rename(launch: object, change: Change) -> None:
        change.put(kernel.launched_once()[0].node, "nothing()")
        change.constraints.append("GONE > 1")
        name = change.fresh("name")
        require(launch is not first, f"{name} is for the second alone")

    change.each([first], lambda launch, change: change.before(launch.statement, "pass\n"))
    change.each([first, second], rename)
    assert change.constraints == ["GONE > 1"]
    assert "name_2" not in change.taken
    with pytest.raises(NotApplicableError, match=r"^name_2 is for the second alone$"):
        change.each([first], rename)
    with pytest.raises(NotApplicableError, match=r"^no function is launched at one place alone$"):
        change.each([], rename)


def test_the_first_item_that_fits_is_the_only_one() -> None:
    _, change = change_of("2_61")
    seen: list[int] = []

    def take(number: int, change: Change) -> None:
        require(number > 1, f"{number} is too small")
        seen.append(number)

    change.first([1, 2, 3], take)
    assert seen == [2]
    with pytest.raises(NotApplicableError, match=r"^0 is too small; 1 is too small$"):
        change.first([0, 1, 0], take)


def test_what_is_read_is_what_is_changed_after_many_other_files() -> None:
    change_of("1_23")
    for number in range(100):
        Change(replace(shipped("1_23").kernel, source=f"x = {number}\n"), MACHINE)
    kernel, change = change_of("1_23")
    assert kernel.module is change.module


def test_two_edits_of_a_statement_are_made_one_after_the_other() -> None:
    kernel, change = change_of("1_23")
    (launch,) = kernel.launched_once()
    change.before(launch.statement, "first = 1\n")
    change.before(launch.statement, "second = 2\n")
    change.after(launch.statement, "third = 3\n")
    change.at_start(launch.host, "zeroth = 0\n")
    change.add_arguments(launch.node, {"num_stages": "2"})
    source = change.rewritten("").kernel.source
    places = [source.index(text) for text in ("zeroth = 0", "first = 1", "second = 2", "softmax_kernel[", "third = 3")]
    assert places == sorted(places) and "num_stages=2)" in source


def test_a_constant_is_declared_where_the_file_declares_its_space() -> None:
    _, change = change_of("1_23")
    name = change.constant("BLOCK_SIZE", (1, 2), 2)
    rewritten = change.rewritten("")
    assert name == "BLOCK_SIZE_2" and rewritten.kernel.config[name] == 2
    assert tuple(rewritten.kernel.declared_values[name]) == (1, 2)
    assert [parameter.name for parameter in rewritten.parameters] == [name]


def test_a_rule_that_changes_nothing_does_not_fit() -> None:
    nothing = rule("memory", "both", TritonKernel.read, "nothing").because("")(
        lambda kernel, change: change.rewritten("did nothing")
    )
    with pytest.raises(NotApplicableError, match="nothing changes"):
        nothing.apply(shipped("1_23").kernel, MACHINE)


@dataclass(frozen=True)
class Adds:
    """Adds a name to a file that has the names it needs."""

    name: str
    needs: tuple[str, ...] = ()
    category: str = "memory"
    work: str = "both"
    why: str = ""

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten:
        for name in self.needs:
            require(name in kernel.config, f"no {name}")
        return Rewritten(replace(kernel, source=f"{kernel.source}\n{self.name} = 1\n"), f"added {self.name}")


def test_a_rule_goes_after_another_one_where_it_does_not_fit_alone() -> None:
    kernel = shipped("1_23").kernel
    pair = After(Adds("B", ("A",)), Adds("A"))
    both = pair.apply(kernel, MACHINE)
    assert (pair.name, both.summary) == ("B", "added A, and added B")
    assert both.kernel.source.endswith("A = 1\n\nB = 1\n")
    assert pair.apply(Adds("A").apply(kernel, MACHINE).kernel, MACHINE).summary == "added B"
    with pytest.raises(NotApplicableError, match=r"^no A; after C: no A$"):
        After(Adds("B", ("A",)), Adds("C")).apply(kernel, MACHINE)


def test_a_rule_is_completed_by_those_that_fit() -> None:
    kernel = shipped("1_23").kernel
    whole = Completed(Adds("A"), (Adds("B", ("NONE",)), Adds("C", ("A",))))
    assert whole.apply(kernel, MACHINE).summary == "added A, and added C"
    with pytest.raises(NotApplicableError, match=r"^no NONE$"):
        Completed(Adds("A", ("NONE",)), (Adds("B"),)).apply(kernel, MACHINE)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("f(a,  # one )\n  b)", "f(a, b)"),
        ("a + \\\n    b", "a + b"),
        ("f(\n    a  # last\n)", "f( a )"),
        ('f("# no comment",  # one\n)', 'f("# no comment", )'),
    ],
)
def test_an_expression_is_one_line_without_comments(text: str, plain: str) -> None:
    assert code(cst.parse_expression(text)) == plain


@pytest.mark.parametrize(
    ("template", "text", "found"),
    [
        ("q_acc += q_left * q_right", "total += (x[i]  # one\n)", None),
        ("q_acc += q_left * q_right", "total += (x[i]) * (\n    y)", {"acc": "total", "left": "x[i]", "right": "y"}),
        ("q_a[q_i] = q_a[q_i]", "x[0] = x[1]", None),
        ("tl.load(q_pointer, q__)", "tl.load(p + 1, mask=m, other=0.0)", {"pointer": "p + 1"}),
        ("tl.load(q_pointer, mask=q_mask)", "tl.load(p, other=m)", None),
        ('f("float32")', "f('float32')", {}),
        ("for q_i in range(q_n):\n    q_x = 0\n    q__", "for i in range(8): x = 0", {"i": "i", "n": "8", "x": "x"}),
        ("if q_n == 0: return", "if n == 0:\n    # nothing to do\n    return", {"n": "n"}),
    ],
)
def test_a_template_matches_whatever_the_layout_is(template: str, text: str, found: dict[str, str] | None) -> None:
    assert match(template, cst.parse_module(text).body[0]) == found


def test_a_name_of_the_kernel_is_no_placeholder_even_if_it_looks_like_one() -> None:
    statement = cst.parse_statement("q_row = tl.load(x_ptr)")
    assert matches(statement, "q_name = tl.load(q__)", name="q_row")
    assert not matches(statement, "q_name = tl.load(q__)", name="q_column")


def test_a_value_that_is_there_is_needed() -> None:
    assert need(0, "nothing") == 0
    with pytest.raises(NotApplicableError, match=r"^nothing$"):
        need(None, "nothing")
