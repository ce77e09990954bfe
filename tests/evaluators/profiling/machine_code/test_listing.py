"""Assembly read into instructions, blocks and loops, and what is known of each lane."""

from __future__ import annotations

import numpy as np
import pytest
from kernelwright.evaluators.profiling.machine_code.facts import facts_of
from kernelwright.evaluators.profiling.machine_code.issue import LATENCY, run
from kernelwright.evaluators.profiling.machine_code.lanes import follow
from kernelwright.evaluators.profiling.machine_code.listing import Listing, read_listing
from kernelwright.evaluators.profiling.machine_code.reader import read_code
from kernelwright.evaluators.profiling.machine_code.values import (
    LANE,
    THREAD,
    LaneValue,
    add,
    bitwise,
    exact,
    join,
    multiply,
    shift_right,
    unknown,
)

HEAD = '.text.rows:\n\t//## File "/a/kernel.py", line 3\n'
AND, OR = 0xC0, 0xFC


def listing(*rows: str) -> Listing:
    """Instructions one after the other; rows that end with a colon are labels."""
    lines, address = [HEAD], 0
    for row in rows:
        if row.endswith(":") or row.startswith("//"):
            lines.append(f"{row}\n")
        else:
            lines.append(f"        /*{address:04x}*/                   {row} ;\n")
            address += 16
    (found,) = read_listing("".join(lines))
    return found


def test_lines_are_those_of_the_kernels_file() -> None:
    found = listing(
        "S2R R0, SR_TID.X",
        '//## File "/lib/standard.py", line 216 inlined at "/a/kernel.py", line 9',
        '//## File "/a/kernel.py", line 9',
        "FADD R1, R0, R0",
        '//## File "/lib/standard.py", line 12',
        "FADD R2, R0, R0",
        "EXIT",
    )
    assert found.name == "rows"
    assert [item.line for item in found.code] == [3, 9, None, None]


def test_blocks_end_at_branches_and_padding_is_left_out() -> None:
    found = listing(
        "MOV R0, RZ", ".L_x_1:", "IADD3 R0, R0, 0x1, RZ", "ISETP.LT.AND P0, PT, R0, R4, PT", "@P0 BRA `(.L_x_1)",
        "EXIT",
        ".L_x_2:", "BRA `(.L_x_2)", "NOP",
    )  # fmt: skip
    assert [item.name for item in found.code] == ["MOV", "IADD3", "ISETP", "BRA", "EXIT"]
    assert [(loop.start, loop.end) for loop in found.loops()] == [(1, 3)]
    assert [(block.start, block.end, block.successors) for block in found.blocks()] == [
        (0, 1, [1]), (1, 4, [1, 2]), (4, 5, []),
    ]  # fmt: skip


def test_the_address_of_each_lane_is_followed_through_a_loop() -> None:
    found = listing(
        "S2R R0, SR_TID.X", "LDC.64 R2, c[0x0][0x210]", "IMAD.WIDE R2, R0, 0x8, R2", ".L_x_1:",
        "LDG.E.64 R4, desc[UR4][R2.64+0x10]", "IADD3 R2, P1, R2, 0x100, RZ", "@P0 BRA `(.L_x_1)", "EXIT",
    )  # fmt: skip
    (request,) = follow(found)
    assert request.address is not None and (request.space, request.width) == ("global", 8)
    assert np.array_equal(request.address.lanes, np.arange(32) * 8 + 16)
    assert request.address.sources == {"0x210"}


def test_one_load_of_constants_may_hold_several_parameters() -> None:
    found = listing(
        "S2R R0, SR_TID.X", "LDC.64 R2, c[0x0][0x210]", "ULDC.64 UR4, c[0x0][0x220]", "IMAD R1, R0, UR5, RZ",
        "LEA R2, P0, R1, R2, 0x2", "LDG.E R4, desc[UR6][R2.64]", "EXIT",
    )  # fmt: skip
    (request,) = follow(found)
    assert request.address is not None and request.address.lanes[1] - request.address.lanes[0] == 4 * 4096


def test_lanes_that_left_do_not_access() -> None:
    found = listing(
        "S2R R0, SR_TID.X", "LOP3.LUT R1, R0, 0x1f, RZ, 0xc0, !PT", "ISETP.GT.U32.AND P0, PT, R1, 0x3, PT", "@P0 EXIT",
        "LDS R2, [R1]", "EXIT",
    )  # fmt: skip
    (request,) = follow(found)
    assert int(request.active.sum()) == 4


def test_what_is_loaded_by_lane_is_not_known() -> None:
    found = listing("S2R R0, SR_TID.X", "LDS R2, [R0]", "LDS R3, [R2]", "EXIT")
    assert [request.address is None for request in follow(found)] == [False, True]


def value(lanes: LaneValue | None) -> list[int]:
    assert lanes is not None
    return lanes.lanes.tolist()


def test_bits_below_the_step_are_known() -> None:
    assert value(bitwise(AND, [THREAD, exact(31), exact(0)])) == list(range(32))
    masked = bitwise(AND, [THREAD, exact(0xFF), exact(0)])
    assert masked is not None and masked.step == 32 and value(masked) == list(range(32))
    warp = shift_right(THREAD, exact(5))
    assert warp is not None and warp.uniform and warp.step == 1
    assert value(bitwise(OR, [multiply(LANE, exact(4)), exact(512), exact(0)]))[:2] == [512, 516]
    assert bitwise(AND, [None, exact(7), exact(0)]) is None
    assert value(bitwise(AND, [None, exact(0), exact(0)])) == [0] * 32


def test_lanes_apart_by_a_size_are_in_different_rows() -> None:
    rows = multiply(LANE, unknown(1, "0x220"))
    assert rows is not None and rows.lanes[1] - rows.lanes[0] == 4096
    assert multiply(LANE, unknown()) is None  # such as a block's number


@pytest.mark.parametrize(("left", "right", "step"), [(LANE, add(LANE, exact(8)), 8), (THREAD, THREAD, 32)])
def test_paths_join_to_what_holds_on_both(left: LaneValue, right: LaneValue, step: int) -> None:
    kept = join(left, right)
    assert kept is not None and kept.step == step and value(kept) == value(left)
    assert join(LANE, multiply(LANE, exact(2))) is None


def test_a_chain_waits_for_each_of_its_links() -> None:
    chain = listing(*["FADD R1, R1, R2"] * 10, "EXIT").code
    apart = listing(*[f"FADD R{10 + index}, R1, R2" for index in range(10)], "EXIT").code
    assert run(chain, 1).cycles >= 9 * LATENCY["fp32"]
    assert run(apart, 1).cycles == len(apart)


def test_a_copy_is_awaited_only_as_far_as_asked() -> None:
    rows = ["LDGSTS.E.128 [R1], desc[UR4][R2.64]", "LDGDEPBAR", "LDGSTS.E.128 [R1], desc[UR4][R2.64]", "LDGDEPBAR"]
    all_of_them = run(listing(*rows, "DEPBAR.LE SB0, 0x0", "EXIT").code, 1)
    none = run(listing(*rows, "DEPBAR.LE SB0, 0x2", "EXIT").code, 1)
    assert none.cycles < 10 < LATENCY["global"] <= all_of_them.cycles
    assert all_of_them.in_flight == 2 * 32 * 16


def test_bank_conflicts_of_wide_accesses_are_counted_by_their_phases() -> None:
    def passes(stride: int, opcode: str) -> tuple[int, int]:
        facts = facts_of(listing("S2R R0, SR_LANEID", f"IMAD R1, R0, {stride:#x}, RZ", f"{opcode} R4, [R1]", "EXIT"))
        assert facts is not None
        return facts.accesses[0].requests, facts.accesses[0].needed

    assert passes(4, "LDS") == (1, 1)
    assert passes(128, "LDS") == (32, 1)
    assert passes(8, "LDS") == (2, 1)
    assert passes(16, "LDS.128") == (4, 4)
    assert passes(128, "LDS.128") == (32, 4)


def test_what_is_no_binary_or_too_long_has_no_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_code(b"not an ELF file", "rows") is None
    monkeypatch.setattr("kernelwright.evaluators.profiling.machine_code.facts.LARGEST", 1)
    assert facts_of(listing("MOV R0, RZ", "EXIT")) is None


def test_what_no_lane_executes_changes_nothing() -> None:
    code = listing("MOV R5, RZ", "ISETP.NE.AND P0, PT, R5, RZ, PT", "@P0 FADD R7, R7, R7", "EXIT")
    assert facts_of(code) is not None


def test_a_fault_of_the_reader_is_no_fault_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(listing: Listing) -> None:
        raise OverflowError("a step without end")

    rows = HEAD + "\t/*0000*/ EXIT ;\n"
    monkeypatch.setattr("kernelwright.evaluators.profiling.machine_code.reader.disassemble", lambda binary: rows)
    monkeypatch.setattr("kernelwright.evaluators.profiling.machine_code.reader.facts_of", fail)
    assert read_code(b"any", "rows") is None
