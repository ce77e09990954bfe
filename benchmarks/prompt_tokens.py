"""Tokens of a turn's first two prompts, the analysis and a rewrite, against recorded ones of the same kernels.

    python benchmarks/prompt_tokens.py CONVERSATIONS [--write FOLDER]

CONVERSATIONS has a folder per problem, each with 0001.prompt.md, 0001.reply.md and 0002.prompt.md as the model
`files:DIR` wrote them. Problem, kernel, device and what was measured are read from the recorded prompt, and the
recorded reply answers the new analysis. What recorded prompts do not say (ceilings, limits, errors) has made-up values,
of which only the length counts. Tokens are estimated as everywhere here, see `rag.render.tokens_of`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command import run_benchmark
from kernelwright.agent.applied_rules import AppliedRules
from kernelwright.agent.bottleneck import analyse
from kernelwright.agent.lane import Lane
from kernelwright.agent.models.choice import parse
from kernelwright.agent.models.models import Models, ModelSettings
from kernelwright.agent.models.transcript import Transcript
from kernelwright.agent.program.proposer import ModelProposer
from kernelwright.agent.proposer import TurnContext
from kernelwright.agent.rules import Machine
from kernelwright.agent.turn import Candidate
from kernelwright.agent.workbench import Workbench
from kernelwright.core import (
    Ceilings,
    Correctness,
    DeviceKernel,
    DeviceLimits,
    Evaluation,
    Journal,
    KernelProfile,
    Measurement,
    Profile,
    PythonKernel,
    ReplyPendingError,
    Status,
    TorchProblem,
)
from kernelwright.core.events import ignore
from kernelwright.corpus import load_examples
from kernelwright.rag.render import tokens_of
from kernelwright.rag.retriever import ExampleRetriever

FIELD = re.compile(r"^\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n\[\[ ## |\n\nRespond with |\Z)", re.MULTILINE | re.DOTALL)
KERNEL = re.compile(
    r"^- (\S+): (\S+) ms, (\d+) blocks of (\d+) threads, (\d+) registers per thread, (\S+) KiB of shared memory, "
    r"occupancy (\d+)%(?: limited by (.*))?$",
    re.MULTILINE,
)
# Made up: what the recorded prompts lack.
UNKNOWN = {
    "vector_gflop_s": 11_110, "half_gflop_s": 111_100, "bfloat16_gflop_s": 111_100, "float8_gflop_s": 1_111_000,
    "l2_gb_s": 1111, "launch_us": 1.111, "latency_ns": 111.1,
}  # fmt: skip
VERSIONS = {"triton": "1.1.1", "torch": "1.11.1+cu111", "cuda": "11.1"}
ERROR = 1.1e-7
RULES = AppliedRules(Machine(cores=1, multiprocessors=132))


@dataclass(frozen=True)
class Recorded:
    """A recorded turn: its first two prompts, and the reply to the first."""

    folder: Path

    def text(self, name: str) -> str:
        """Return one of the files."""
        return (self.folder / name).read_text()

    def context(self, folder: Path) -> TurnContext:
        """Return the start of the turn in whose lane the second prompt was written."""
        fields = dict(FIELD.findall(self.text("0001.prompt.md").partition("# Request")[2]))
        if "roofline" not in fields:
            raise SystemExit(f"{self.folder} is of a later form than this reads; give prompts with a field `roofline`")
        roofline, device = fields["roofline"], fields["device"]
        name = fields["workload"].split()[0]
        level = self.folder.name.partition("_")[0]
        problem = TorchProblem(f"level{level}/{self.folder.name}", name, fields["reference"] + "\n")
        kernel = PythonKernel.parse(fields["source"] + "\n")
        profile = _profile(roofline, device, fields["profile"])
        evaluation = _evaluation(roofline, kernel)
        bench: Any = Workbench(problem, [], lambda: None, Journal(folder / "journal.jsonl"), ignore)  # type: ignore[arg-type,return-value]
        lane = re.search(r"Conversation 1\.(\d+)", self.text("0002.prompt.md"))
        index = int(lane[1]) if lane else 0
        candidate = Candidate(kernel, evaluation)
        metrics = analyse(profile, kernel, evaluation)
        return TurnContext(problem, profile, candidate, metrics, (), Lane(bench, 1, index, lambda: None), index)

    def now(self) -> list[str]:
        """Return both prompts as they are written today."""
        with tempfile.TemporaryDirectory() as name:
            folder, chat = Path(name), Path(name) / "chat"
            chat.mkdir()
            context = self.context(folder)
            transcript = Transcript(folder / "transcript.jsonl")
            models = Models(ModelSettings(parse(f"files:{chat}"), wait=False), transcript, {})
            retriever = ExampleRetriever(load_examples(print), embedder=None)
            proposer = ModelProposer(models, ignore, retriever, skipped_rules=RULES.skipped)
            first = dataclasses.replace(context, variant=0)
            try:
                proposer.analyse(first)
            except ReplyPendingError:
                shutil.copy2(self.folder / "0001.reply.md", chat)  # a new one may not be complete
            proposer = ModelProposer(models, ignore, retriever, skipped_rules=RULES.skipped)
            context = dataclasses.replace(context, analysis=proposer.analyse(first))
            with contextlib.suppress(ReplyPendingError):
                proposer.propose(context)
            return [(chat / f"000{number}.prompt.md").read_text() for number in (1, 2)]


def _number(pattern: str, text: str, default: float = 0.0) -> float:
    found = re.search(pattern, text)
    return float(found[1]) if found else default


def _profile(roofline: str, device: str, metrics: str) -> Profile:
    matrix = _number(r"matrix rate (\S+) GFLOP", device)
    bytes_moved = 1e6 * _number(r"at least (\S+) MB", roofline)
    ceilings = Ceilings(
        copy_gb_s=_number(r"copy bandwidth (\S+) GB", device), matrix_gflop_s=matrix, tf32_gflop_s=3 * matrix,
        cores=int(_number(r"(\d+) multiprocessors", device)), **UNKNOWN,
    )  # fmt: skip
    limits = DeviceLimits(
        architecture="sm_90", multiprocessors=ceilings.cores, shared_bytes=227 * 1024, registers=65_536, threads=2048,
        l2_bytes=11 << 20, clock_mhz=1111,
    )  # fmt: skip
    operators = re.search(r"operators of the reference: (.*)", roofline)
    return Profile(
        flops=1e6 * _number(r"work: (\S+) MFLOP", roofline),
        matrix_flops=1e6 * _number(r"MFLOP, (\S+) of them", roofline),
        min_bytes=bytes_moved,
        eager_bytes=bytes_moved * _number(r"operators move (\S+) times", metrics, 1.0),
        operators=tuple(operators[1].split(", ")) if operators else (),
        ceilings=ceilings,
        limits=limits,
        device=device.partition(":")[0],
    )


def _evaluation(roofline: str, kernel: PythonKernel) -> Evaluation:
    ran = [
        DeviceKernel(
            name=name, launches=1, time_ms=float(ms), own=True, blocks=int(blocks), threads=int(threads),
            registers=int(registers), shared_bytes=int(1024 * float(shared)), occupancy=int(percent) / 100,
            limited_by=limit or "threads", resident_blocks=max(1, round(int(percent) * 2048 / 100 / int(threads))),
        )
        for name, ms, blocks, threads, registers, shared, percent, limit in KERNEL.findall(roofline)
    ]  # fmt: skip
    return Evaluation(
        status=Status.OK,
        kernel_digest=kernel.digest,
        correctness=Correctness(
            seeds=(1,), max_abs_error=ERROR, max_rel_error=ERROR, own_errors=(ERROR, ERROR), tolerance=1e-4,
            passed=True, error_fp64=ERROR, torch_error_fp64=ERROR,
        ),
        measurement=Measurement(samples_ms=(_number(r"(?:right|correct): (\S+) ms", roofline),)),
        reference=Measurement(samples_ms=(_number(r"reference's (\S+) ms", roofline),)),
        kernel_profile=KernelProfile(kernels=tuple(ran)),
        environment=VERSIONS,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("conversations", type=Path)
    parser.add_argument("--write", type=Path, help="also write today's prompts there")
    options = parser.parse_args()
    folders = sorted(path.parent for path in options.conversations.glob("*/0002.prompt.md"))
    if not folders:
        parser.error(f"{options.conversations} has no folder with a 0002.prompt.md")
    print(f"{'problem':8} {'analysis':>9} {'now':>6} {'':5} {'rewrite':>8} {'now':>6}")
    totals = [0, 0, 0, 0]
    for folder in folders:
        recorded = Recorded(folder)
        prompts = recorded.now()
        counts = [tokens_of(text) for i in (0, 1) for text in (recorded.text(f"000{i + 1}.prompt.md"), prompts[i])]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        _row(folder.name, counts)
        if options.write:
            for number, text in enumerate(prompts, 1):
                path = options.write / folder.name / f"000{number}.prompt.md"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    _row("all", totals)


def _row(name: str, counts: list[int]) -> None:
    was, now, rewrite, rewritten = counts
    print(f"{name:8} {was:9} {now:6} {now / was - 1:+5.0%} {rewrite:8} {rewritten:6} {rewritten / rewrite - 1:+5.0%}")


if __name__ == "__main__":
    run_benchmark(main)
