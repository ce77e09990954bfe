"""What a model is told of a device, of past changes and of the suggestion that it carries out."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from kernelwright.agent.program import briefing, tensor_cores
from kernelwright.agent.program.changes import change_text
from kernelwright.agent.program.device import device_text, versions_text
from kernelwright.agent.program.inputs import DETAILS, analysis_inputs, reference_text, rewrite_inputs
from kernelwright.agent.program.profiled_call import call_lines
from kernelwright.agent.program.proposer import ModelProposer
from kernelwright.agent.program.retrieval import relevant, technique_of
from kernelwright.agent.program.suggestions import leans_on, suggestion_text
from kernelwright.agent.turn import Attempt, Candidate, Turn
from kernelwright.core import (
    Correctness,
    DeviceKernel,
    Hit,
    KernelProfile,
    PythonKernel,
    Query,
    Target,
    TorchProblem,
    WorkedExample,
)
from kernelwright.core.languages import TILELANG, TRITON

from ..conversations.telling import analysis
from .briefing_cases import CPU, GPU, RAN, context, proposed, right
from .stand import TRITON as SCALE
from .stand import stand, textual

KERNEL = PythonKernel.parse(SCALE)
FULL = GPU.model_copy(
    update={
        "matrix_flops": 1e9,
        "ceilings": GPU.ceilings.model_copy(
            update={
                "matrix_gflop_s": 120_000, "vector_gflop_s": 50_000, "tf32_gflop_s": 360_000,
                "bfloat16_gflop_s": 750_000, "half_gflop_s": 700_000, "float8_gflop_s": 1_400_000, "l2_gb_s": 5500,
                "launch_us": 2.5, "latency_ns": 640,
            }
        ),
        "limits": GPU.limits.model_copy(update={"l2_bytes": 50 << 20, "clock_mhz": 1980}) if GPU.limits else None,
    }
)  # fmt: skip
"""A device of which all is known; the rates are made up."""


def test_every_ceiling_is_told_with_its_precision_and_its_source() -> None:
    assert device_text(FULL).splitlines() == [
        "NVIDIA H200: 132 multiprocessors, compute capability 9.0",
        "a block may take 227 KiB of shared memory; 65536 registers and 2048 threads per multiprocessor; "
        "L2 cache 50 MiB",
        "measured: a copy 4000 GB/s (read plus written), reads from L2 5500 GB/s, "
        "640 ns from a load to its value in memory, 2.5 us for each further launch",
        "matrix products in GFLOP/s, measured: fp32 on vector units 50000, "
        "TF32 360000 (fp32 as three TF32 products 120000), bf16 750000 (fp32 as three bf16 products 250000), "
        "fp16 700000, fp8 1400000",
        "not measured, from the device's limits: 4182 G exponentials/s (16 per clock and multiprocessor at 1980 MHz)",
    ]
    assert "for fp32 products as three of bf16)" in briefing.work_text(FULL)
    assert device_text(CPU).splitlines()[1] == (
        "measured: a copy 12.5 GB/s (read plus written), fp32 matrix products 180 GFLOP/s"
    )


def test_versions_are_those_of_the_kernels_language() -> None:
    known = {"triton": "3.6.0", "tilelang": "0.1.15", "torch": "2.11.0", "cuda": "13.0", "device": "a GPU"}
    assert versions_text(KERNEL, known) == "triton 3.6.0, torch 2.11.0, cuda 13.0"
    assert versions_text(KERNEL, {}) == ""


def test_the_tolerance_and_what_a_kernel_uses_of_it() -> None:
    checked = Correctness(
        seeds=(1,), max_abs_error=3.0, max_rel_error=1e-6, own_errors=(2e-6, 1e-6), tolerance=1e-4, passed=True,
        error_fp64=3e-7, torch_error_fp64=2e-7,
    )  # fmt: skip
    timed = right(KERNEL, 1, 1).model_copy(update={"correctness": checked})
    assert briefing.tolerance_text(timed) == (
        "tolerance: 0.0001 absolute and relative; this kernel's largest error is 2.0e-06; "
        "root mean square against fp64 3.0e-07, the reference's 2.0e-07"
    )
    wider = timed.model_copy(update={"correctness": checked.model_copy(update={"absolute_tolerance": 0.01})})
    assert briefing.tolerance_text(wider).startswith("tolerance: 0.01 absolute, 0.0001 relative")


def ran(**known: object) -> Candidate:
    kernel = RAN.kernels[0].model_copy(update={"occupancy": 0.25, "limited_by": "registers", **known})
    return Candidate(
        KERNEL, right(KERNEL, 0.01, 0.01).model_copy(update={"kernel_profile": KernelProfile(kernels=(kernel,))})
    )


def test_occupancy_is_told_as_what_fits_and_what_there_is() -> None:
    told = briefing.ran_text(FULL, ran(blocks=132 * 16 * 5 // 4))
    assert "occupancy at most 25% (limited by registers), 1.25 waves, so about 16% on average (estimated:" in told
    assert "on average" not in briefing.ran_text(FULL, ran(resident_blocks=None))


def test_a_call_on_a_cpu_is_told_in_shares(tmp_path: Path) -> None:
    """Under the profiler a call takes longer than a timed one: two times of one kernel would contradict each other."""
    operators = [
        DeviceKernel(name=name, launches=1, time_ms=ms, own=name == "own code")
        for name, ms in (("own code", 3.0), ("aten::mm", 0.9), ("aten::view", 0.03))
    ]
    found = KernelProfile(kernels=tuple(operators))
    assert call_lines(found, CPU) == ["of one call the kernel's own code took 76%, 23% in aten::mm"]
    timed = right(KERNEL, 1, 1).model_copy(update={"kernel_profile": found})
    start, attempt = Candidate(KERNEL, timed), Attempt(proposed(KERNEL, "idea", ""), (timed,))
    turn = Turn(1, 0, context(tmp_path, "triton", past=False).analysis, start, (attempt,), start, True, 3.1)
    assert "its kernels" not in briefing.history_text([turn])


def test_tensor_cores_are_told_from_the_compiled_code_and_else_from_the_source() -> None:
    compiled = briefing.ran_text(FULL, ran(tensor_cores=("wgmma bf16",)))
    assert "tensor cores: wgmma bf16" in compiled and "by the source" not in compiled
    assert "no tensor-core instruction" in briefing.ran_text(FULL, ran(tensor_cores=()))
    assert "by the source: no tl.dot, so no tensor cores" in briefing.ran_text(FULL, ran())
    assert "by the source" not in briefing.ran_text(GPU, ran())  # it has no products


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('tl.dot(a, b, input_precision="ieee")', "vector units, not on tensor cores"),
        ("tl.dot(a, b, input_precision=PRECISION)", "tl.dot at input_precision tf32x3 on tensor cores"),
        ("tl.dot(a, b, acc)", "by the source: tl.dot on tensor cores"),
    ],
)
def test_a_source_says_how_its_products_run(line: str, told: str) -> None:
    source = SCALE.replace("    value =", f"    {line}\n    value =").replace("BLOCK = 256", 'PRECISION = "tf32x3"')
    assert told in tensor_cores.by_source(PythonKernel.parse(source))


def test_the_analysis_is_told_nothing_twice(tmp_path: Path) -> None:
    where = context(tmp_path, "triton", past=False)
    text = "\n".join(analysis_inputs(where, DETAILS[0]).values())
    assert text.count("times its roofline floor") == 1 and "times the floor" not in text
    assert "WORKLOADS" not in text
    assert "tolerance: 0.0001 absolute and relative" in text


def test_the_reference_is_shown_without_its_other_workloads() -> None:
    source = "size = 3\n\nWORKLOADS = {\n    'tiny': {'size': 1},\n}\n\n\nclass Model:\n    def forward(self, x): ...\n"
    source += "\n\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"
    text = reference_text(TorchProblem("level1/1_999", "999_Scale", source))
    assert text.startswith("size = 3\n\n\nclass Model:")


def test_a_change_is_told_in_a_line() -> None:
    after = SCALE.replace("x + row", "x + 2 * row").replace("BLOCK = 256", "BLOCK = 512\nROWS = 4\nSEARCH_SPACE = {}")
    pack = "@triton.jit\ndef pack(x):\n    pass\n\n\n"
    after = after.replace("class ModelNew", f"{pack}class ModelNew")
    told = change_text(KERNEL, PythonKernel.parse(after))
    assert told == "new pack; changed scale; BLOCK 256 -> 512, ROWS = 4; +9 -2 lines"
    assert change_text(KERNEL, KERNEL) == ""


def test_past_turns_say_what_each_lane_changed_and_whose_kernel_is_shown(tmp_path: Path) -> None:
    where = context(tmp_path, "triton", past=False)
    start = where.candidate
    turns = []
    for lane, ms in ((0, 0.004), (1, 0.01)):
        kernel = PythonKernel.parse(SCALE.replace("BLOCK = 256", f"BLOCK = {512 * (1 + lane)}"))
        timed = right(kernel, ms, 0.00625).model_copy(update={"kernel_profile": RAN})
        found = Candidate(kernel, timed)
        attempt = Attempt(proposed(kernel, f"idea {lane}", "It is wider."), (timed,))
        turns.append(Turn(1, lane, where.analysis, start, (attempt,), found, lane == 0, 3.1))
    second = turns[1].found
    assert second is not None
    told = briefing.history_text(turns, shown=second.kernel).splitlines()
    assert told[:4] == [
        "turn 1, lane 0: idea 0 (compute): 0.004 ms, 3.125 times as fast as the kernel that it began with, "
        "the best so far",
        "  idea: It is wider.",
        "  change: BLOCK 256 -> 512; +1 -1 lines",
        "  its kernels: scale: 0.0088 ms, at::native::vectorized_elementwise_kernel<4, "
        "at::native::FillFunctor<float>> (library): 0.002 ms",
    ]
    assert told[4].startswith("turn 1, lane 1: idea 1") and told[4].endswith("; this is the kernel to improve now")


@pytest.mark.parametrize(
    ("text", "number", "leans"),
    [
        ("if the kernel reports 256 KiB, take suggestion 2 instead", 0, (1,)),
        ("Gain on top of 1 and 2 only, if L2 traffic then binds", 3, (0, 1)),
        ("after the first suggestion 1.06/0.92 = 1.15", 1, (0,)),
        ("1.04 now, 1.08 after the first two suggestions", 2, (0, 1)),
        ("1.04 now, 1.08 after the first two.", 2, (0, 1)),
        ("the mask drops the first two columns", 2, ()),
        ("At half of the bf16 rate assumed above, 0.38 ms", 2, (0, 1)),
        ("Compiles together with the loop above (156 registers)", 1, (0,)),
        ("the loop above (156 registers)", 0, ()),
        ("the tap loop, after suggestions 1 and 2", 2, (0, 1)),
        ("suggestion 7 of another turn", 1, ()),
        ("the registers fall below the cap of 64; above 85 % nothing is left", 1, ()),
        ("a second kernel adds the partial sums after 2 x 64 steps", 1, ()),
        ("the first loop reads a row", 1, ()),
    ],
)
def test_a_suggestion_is_checked_for_what_it_leans_on(text: str, number: int, leans: tuple[int, ...]) -> None:
    assert leans_on(text, number, 4) == leans


def test_what_a_suggestion_leans_on_comes_with_it() -> None:
    ideas = ("pack: write both halves", "skip: as in the first suggestion", "alone: no other")
    assert suggestion_text(ideas, 0) == ideas[0]
    assert suggestion_text(ideas, 1) == f"{ideas[1]}\nwhat it refers to, for your information:\n- {ideas[0]}"
    assert suggestion_text(ideas, 3).endswith("other than those tried beside it: pack; skip; alone")
    assert suggestion_text((), 0) == "what the evidence suggests"


def test_only_examples_that_have_to_do_with_the_idea_are_shown() -> None:
    def hit(operation: str, *techniques: str, language: object = TRITON) -> Hit:
        example = WorkedExample(
            slug=operation, title="", language=language, target=Target.CUDA, operation=operation, category="memory",
            techniques=techniques, before="", after="", story="",
        )  # type: ignore[arg-type]  # fmt: skip
        return Hit(example, 1.0, "")

    hits = [
        hit("softmax", "online-reduction"), hit("matmul", "swizzle"), hit("matmul", "persistent-grid"),
        hit("softmax", "online-reduction", language=TILELANG), hit("softmax", "persistent-grid", language=TILELANG),
    ]  # fmt: skip
    query = Query(text="a persistent grid", language=TRITON, target=Target.CUDA, operation="softmax")
    assert relevant(hits, query) == [hits[2], hits[4]]
    unnamed = dataclasses.replace(query, text="a better way")
    assert relevant(hits, unnamed) == [hits[0]]
    assert relevant(hits, dataclasses.replace(unnamed, operation=None)) == hits[:3]
    assert technique_of("tiles, for wgmma: the loop; a persistent grid would not help") == "tiles, for wgmma"


def test_at_the_roofline_nothing_needs_to_be_suggested(tmp_path: Path) -> None:
    said = analysis("memory", ["95 % of the roofline"])
    here = stand(tmp_path)
    for latency, ideas in ((here.context.analysis.floor_ms / 0.95, 0), (here.context.analysis.floor_ms * 2, 4)):
        folder = tmp_path / str(ideas)
        folder.mkdir()
        where = dataclasses.replace(
            here.context, analysis=dataclasses.replace(here.context.analysis, latency_ms=latency)
        )
        proposer = ModelProposer(textual(folder, [said]), here.heard)
        found = proposer.analyse(where)
        assert len(found.suggestions) == ideas
        if not ideas:
            assert proposer.propose(dataclasses.replace(where, analysis=found)) is None


def test_a_further_lane_is_told_to_go_another_way(tmp_path: Path) -> None:
    where = context(tmp_path, "triton", past=True)
    told = rewrite_inputs(dataclasses.replace(where, variant=1), DETAILS[0], lambda idea, tokens: idea)
    assert told["suggestion"].startswith("a change of your own")
