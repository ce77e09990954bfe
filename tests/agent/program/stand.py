"""A context with a real workbench and lane, over an evaluator that reads the verdict off the kernel's constants."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelwright.agent.bottleneck import analyse
from kernelwright.agent.lane import Lane
from kernelwright.agent.models.choice import parse
from kernelwright.agent.models.models import Models, ModelSettings
from kernelwright.agent.models.transcript import Transcript
from kernelwright.agent.proposer import TurnContext
from kernelwright.agent.turn import Candidate, ToolCall, Turn
from kernelwright.agent.workbench import Workbench
from kernelwright.core import (
    Budget,
    Config,
    Evaluation,
    Hit,
    Journal,
    Kernel,
    Profile,
    PythonKernel,
    Query,
    TorchProblem,
    WorkedExample,
)
from kernelwright.core.events import Event, ProposalFailed, ToolUsed

from ...fakes import PROFILE, evaluation
from ...openai_server import KEY, OpenAIServer, Text, Tools

PROBLEM = TorchProblem(
    "level1/1_999",
    "999_Scale",
    """
rows = 64

WORKLOADS = {"cpu": {"rows": 32}}


class Model:
    def __init__(self, features): ...

    def forward(self, x): ...


def get_inputs(): ...
def get_init_inputs(): ...
""",
).at("cpu")

_KERNEL = '''"""Each row times a vector."""

import tilelang.cpu.language as T
import torch
from torch import nn

RESULT = {result!r}
BLOCK = 8


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return T.scale(x, self.weight, BLOCK)
'''


def source(result: float | str) -> str:
    """A kernel that is right and takes so many milliseconds at BLOCK = 8, or fails with this status."""
    return _KERNEL.format(result=result)


START = PythonKernel.parse(source(20.0))

TRITON = '''"""Each row times a vector."""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK = 256


@triton.jit
def scale(x, w, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < N
    value = tl.load(x + row * N + at, mask=mask)
    factor = tl.load(w + at, mask=mask)
    tl.store(y + row * N + at, value * factor, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def forward(self, x):
        y = torch.empty_like(x)
        scale[(x.shape[0],)](x, self.weight, y, x.shape[1], BLOCK=BLOCK)
        return y
'''


class Told:
    """An evaluator: doubling BLOCK halves the time."""

    def __init__(self) -> None:
        self.bug: Exception | None = None

    def evaluate(
        self, problem: TorchProblem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Iterator[Evaluation]:
        for config in configs:
            if self.bug is not None:
                raise self.bug
            constants = kernel.bind(config).constants
            result = constants["RESULT"]
            yield evaluation(kernel, config, result if isinstance(result, str) else result * 8 / constants["BLOCK"])

    def compare(self, problem: TorchProblem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        return list(self.evaluate(problem, kernel, configs))

    def profile(self, problem: TorchProblem) -> Profile:
        return PROFILE


class Heard:
    """What a person is told."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.calls: list[ToolCall] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, ProposalFailed):
            self.failures.append(event.error)
        if isinstance(event, ToolUsed):
            self.calls.append(event.call)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


class OneExample:
    """A retriever that finds the same example for every question."""

    def __init__(self) -> None:
        self.queries: list[Query] = []

    def search(self, query: Query, k: int) -> list[Hit]:
        self.queries.append(query)
        example = WorkedExample(
            slug="tilelang_cpu/tiles",
            title="Larger tiles",
            language=START.language,
            target=START.target,
            operation="elementwise",
            category="memory",
            techniques=("multi-row-blocks", "threads"),
            before="BLOCK = 1\n",
            after="BLOCK = 64\n",
            story="One row at a time left the cache cold.",
        )
        return [Hit(example, 1.0, "the operation")]


@dataclasses.dataclass
class Stand:
    """A context and what can be observed of it."""

    context: TurnContext
    evaluator: Told
    heard: Heard
    late: list[str]
    """Put a text in, and the limits of the run are reached."""

    @property
    def lane(self) -> Lane:
        return self.context.lane


def stand(folder: Path, turns: Sequence[Turn] = (), variant: int = 0, index: int = 0, number: int = 1) -> Stand:
    """One lane that is about to improve `START`."""
    evaluator, heard, late = Told(), Heard(), list[str]()
    journal = Journal(folder / f"journal{index}.jsonl")
    bench: Any = Workbench(PROBLEM, [evaluator], lambda _: evaluator, journal, heard)  # type: ignore[list-item]
    lane = Lane(bench, number, index, lambda: late[0] if late else None)
    start = evaluation(START, Config(), 20.0)
    metrics = analyse(PROFILE, START, start)
    candidate = Candidate(START, start)
    return Stand(TurnContext(PROBLEM, PROFILE, candidate, metrics, turns, lane, variant), evaluator, heard, late)


def native(folder: Path, server: OpenAIServer, budget: Budget | None = None) -> Models:
    """A model behind HTTP, which calls tools by the protocol."""
    settings = ModelSettings(parse("openai/gpt-4o"), api_base=server.base_url, budget=budget or Budget())
    transcript = Transcript(folder / "transcript.jsonl")
    return Models(settings, transcript, {"OPENAI_API_KEY": KEY}, retries=0)


def textual(folder: Path, replies: Sequence[Text | Tools], lane: str | None = None) -> Models:
    """A model that knows no tool calls, so that they stand in its text; its requests are in the transcript."""
    path = folder / "replies.jsonl"
    records = [{"kind": "exchange", "number": i, "reply": {"text": in_text(r)}} for i, r in enumerate(replies, 1)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return Models(ModelSettings(parse(f"replay:{path}")), Transcript(folder / "transcript.jsonl"), {})


def in_text(reply: Text | Tools) -> str:
    """A step of the server's script as DSPy's chat format has it."""
    if isinstance(reply, Text):
        return reply.content or ""
    calls = [{"name": name, "args": given} for name, given in reply.calls]
    return f"[[ ## next_thought ## ]]\nLet me see.\n\n[[ ## tool_calls ## ]]\n{json.dumps({'tool_calls': calls})}"


def requests(models: Models) -> list[Mapping[str, Any]]:
    """What was sent, exchange by exchange."""
    lines = models.transcript.path.read_text().splitlines()
    return [record["request"] for line in lines if (record := json.loads(line)).get("kind") == "exchange"]


def called(here: Stand) -> list[tuple[str, bool]]:
    """The tools that were used, and whether they did what they were asked."""
    return [(call.name, call.ok) for call in here.lane.tool_calls]
