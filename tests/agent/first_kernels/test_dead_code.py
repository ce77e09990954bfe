"""What a reader of Inductor's kernels is spared."""

from __future__ import annotations

from kernelwright.agent.first_kernels.dead_code import overridden, tidied, without_arguments

KERNEL = """
@triton.jit
def double(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xnumel = 64
    EVEN: tl.constexpr = True
    rnumel = xnumel
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    if EVEN:
        unread = 1
    old = tl.atomic_add(out_ptr0 + (xindex), 1)
    count = 0
    count += 1
    x0 = (xindex % 8)
    tmp0 = tl.load(in_ptr0 + (x0), None)
    tmp1 = (tmp0
        + tmp0)
    tl.store(out_ptr0 + (xindex), tmp1, None)
"""
TIDY = """
@triton.jit
def double(in_ptr0, out_ptr0, XBLOCK: tl.constexpr):
    EVEN: tl.constexpr = True
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)
    if EVEN:
        unread = 1
    old = tl.atomic_add(out_ptr0 + xindex, 1)
    count = 0
    count += 1
    x0 = xindex % 8
    tmp0 = tl.load(in_ptr0 + x0, None)
    tmp1 = (tmp0
        + tmp0)
    tl.store(out_ptr0 + xindex, tmp1, None)
"""


def test_names_that_nothing_reads_go_and_what_changes_memory_stays() -> None:
    left_out = overridden(KERNEL, "double")
    assert left_out == {2: "xnumel"}
    assert tidied(without_arguments(KERNEL, "double", set(left_out.values()))) == TIDY
