"""GEPA over recorded contexts: real HTTP, DSPy and GEPA; a scripted model that follows its instructions."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernelwright.agent.program.signatures import KernelProgram, read_program, save_program
from kernelwright.agent.prompt_optimization.gepa import OptimizedProgram, Split, compile_program, split
from kernelwright.agent.prompt_optimization.outcome import ANALYSE, REPAIR, REWRITE
from kernelwright.agent.prompt_optimization.recorded import RecordedTurn
from kernelwright.agent.prompt_optimization.reflection import Reflection
from kernelwright.agent.prompt_optimization.rollout import Rollouts
from kernelwright.agent.workbench import Workbench
from kernelwright.core import Budget, Evaluation, Journal, PythonKernel, Target
from kernelwright.core.languages import TILELANG

from ...fakes import PROFILE
from ...openai_server import JSON, Fail, OpenAIServer, Step, Text
from ..conversations.telling import analysis, submit
from ..program.stand import PROBLEM, Heard, Told, native, source

KIND = TILELANG, Target.CPU
FAST, BAD = "WIDEN THE TILE.", "BLAME THE WEATHER."


def situations(count: int) -> list[RecordedTurn]:
    """Each of a problem of its own."""
    found = []
    for number in range(count):
        problem = dataclasses.replace(PROBLEM, id=f"level1/1_{number}", name=f"{number}_Scale")
        found.append(RecordedTurn(problem, PROFILE, PythonKernel.parse(source(20.0 + number)), ()))
    return found


class Model:
    """Answers as its instructions make it: `FAST` in those for rewriting helps, `BAD` in those for analysis misleads.

    `lessons` are what reflection adds to the instructions, part by part.
    """

    def __init__(self, **lessons: str) -> None:
        self.lessons = lessons
        self.asked: list[str] = []
        self.pages: list[str] = []

    def __call__(self, body: JSON) -> Step:
        system, user = (str(message["content"]) for message in body["messages"][:2])
        if "You improve the instructions" in system:
            return self._reflect(user)
        if "You find what limits" in system:
            self.asked.append("analyse")
            idea = "pray" if BAD in system else "widen the tile"
            return analysis("memory", ["1 GB/s of 10"], (idea, "the loop", "it waits", 2.0))
        part = "repair" if "[[ ## failure ## ]]" in user else "rewrite"
        self.asked.append(part)
        given = float(re.findall(r"RESULT = ([\d.]+)", user)[0])
        if part == "rewrite" and "pray" in user:
            return submit(source("wrong_value"), "pray", "It cannot hurt.")
        return submit(source(given / 2 if FAST in system else given * 1.5), "widen", "Fewer rounds.")

    def _reflect(self, user: str) -> Step:
        self.asked.append("reflect")
        self.pages.append(user)
        part = "analyse" if "finds the bottleneck" in user else "repair" if "fixes" in user else "rewrite"
        present = re.search(r"## present ## \]\]\n(.*?)\n\n\[\[ ## pages", user, re.DOTALL)
        assert present is not None
        return Text(f"[[ ## new_instructions ## ]]\n{present[1]}\n{self.lessons.get(part, 'Go on.')}\n")


class Counting(Told):
    """Counts what it measures; from `bug_after` on it has a bug."""

    def __init__(self, bug_after: int = 1000) -> None:
        super().__init__()
        self.measured = 0
        self.bug_after = bug_after

    def evaluate(self, *arguments: Any) -> Iterator[Evaluation]:
        for evaluation in super().evaluate(*arguments):
            self.measured += 1
            if self.measured > self.bug_after:
                raise ZeroDivisionError("ours")
            yield evaluation


@dataclasses.dataclass
class Practised:
    compiled: OptimizedProgram
    told: list[str]


def practise(
    folder: Path,
    model: Callable[[JSON], Step],
    chosen: Split,
    evaluations: int = 12,
    budget: Budget | None = None,
    evaluator: Counting | None = None,
) -> Practised:
    """Compile in a folder, whose transcript and journals a second call resumes."""
    told: list[str] = []
    with OpenAIServer([model] * 500) as server:
        models = native(folder, server, budget)
        measuring = evaluator or Counting()
        benches: dict[str, Workbench] = {}
        journals: list[Journal] = []

        def workbench(turn: RecordedTurn) -> Workbench:
            if turn.problem.id not in benches:
                journals.append(Journal(folder / f"journal_{turn.problem.name}.jsonl"))
                bench = Workbench(turn.problem, [measuring], lambda: measuring, journals[-1], Heard())
                benches[turn.problem.id] = bench
            return benches[turn.problem.id]

        rollouts = Rollouts(models, workbench, Heard(), None, 0, told.append)
        try:
            for turn in (*chosen.training, *chosen.validation):
                assert rollouts.begin(turn) is None
            compiled = compile_program(chosen, rollouts, models, evaluations, 0, told.append)
        finally:
            models.transcript.close()
            for journal in journals:
                journal.close()
        assert server.errors == []
    return Practised(compiled, told)


def two_problems() -> Split:
    first, second = situations(2)
    return Split((first,), (second,))


@dataclasses.dataclass
class Whole:
    """A compile that came to its end, for every test that looks at what it did."""

    folder: Path
    model: Model
    practised: Practised
    measured: int


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder, model, evaluator = tmp_path_factory.mktemp("whole"), Model(analyse=BAD, rewrite=FAST), Counting()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        practised = practise(folder, model, two_problems(), evaluator=evaluator)
    return Whole(folder, model, practised, evaluator.measured)


def test_what_helps_is_kept_and_saved_and_what_harms_is_not(whole: Whole, tmp_path: Path) -> None:
    practised = whole.practised
    compiled = practised.compiled
    assert compiled.improved
    assert compiled.scores[0] == pytest.approx(0.4)
    assert compiled.scores[compiled.best] == pytest.approx(0.67)
    best = compiled.instructions[compiled.best]
    assert FAST in best[REWRITE]
    assert BAD not in best[ANALYSE]
    assert any("left" in line for line in practised.told)  # the proposal that harmed
    path = save_program(
        compiled.program(KIND), tmp_path / "p.json", language="tilelang", target="cpu", scores=compiled.scores
    )
    state = read_program(path, *KIND)
    program = KernelProgram(*KIND)
    program.load_state(state)
    assert FAST in program.rewrite.react.signature.instructions
    assert program.analyse.signature.instructions == KernelProgram(*KIND).analyse.signature.instructions


def test_nothing_is_asked_or_measured_twice_when_resumed(whole: Whole, tmp_path: Path) -> None:
    shutil.copytree(whole.folder, tmp_path, dirs_exist_ok=True)
    again, measured_again = Model(analyse=BAD, rewrite=FAST), Counting()
    resumed = practise(tmp_path, again, two_problems(), evaluator=measured_again)
    assert whole.model.asked
    assert whole.measured
    assert again.asked == []
    assert measured_again.measured == 0
    assert resumed.compiled == whole.practised.compiled


def test_the_same_instructions_are_tried_once_in_a_context(tmp_path: Path) -> None:
    model = Model()  # lessons that change nothing of what the model does
    practise(tmp_path, model, two_problems(), evaluations=10)
    questions = [json.loads(line) for line in (tmp_path / "transcript.jsonl").read_text().splitlines()]
    lanes = [record["lane"] for record in questions]
    assert len(lanes) == len(set(lanes))
    # New instructions for the rewrite leave the analysis as it was.
    assert model.asked.count("analyse") < model.asked.count("rewrite")


def test_a_compile_that_was_killed_goes_on_where_it_was(whole: Whole, tmp_path: Path) -> None:
    class Killed(Model):
        def __call__(self, body: JSON) -> Step:
            return super().__call__(body) if len(self.asked) < 5 else Fail(401, "no", code="invalid_api_key")

    killed = Killed(analyse=BAD, rewrite=FAST)
    half = practise(tmp_path, killed, two_problems())
    assert "refused" in half.compiled.stopped
    rest = Model(analyse=BAD, rewrite=FAST)
    resumed = practise(tmp_path, rest, two_problems())
    assert resumed.compiled == whole.practised.compiled
    assert [*killed.asked, *rest.asked] == whole.model.asked


def test_a_spent_budget_keeps_the_best_so_far(tmp_path: Path) -> None:
    model = Model(rewrite=FAST)
    practised = practise(tmp_path, model, two_problems(), evaluations=100, budget=Budget(tokens=30_000))
    assert practised.compiled.stopped == "budget of 30000 tokens used up"
    assert practised.compiled.scores


def test_pages_tell_what_was_given_done_and_measured(whole: Whole) -> None:
    model = whole.model
    analysed = next(page for page in model.pages if "finds the bottleneck" in page)
    assert "widen the tile: the loop" in analysed
    assert "RESULT = 20.0" in analysed
    rewritten = next(page for page in model.pages if "carries out" in page)
    assert "+RESULT = 30.0" in rewritten
    assert "0.667 times as fast as the kernel given" in rewritten
    assert "times the roofline floor" in rewritten
    assert "{{contract}}" in rewritten
    assert "defines `class ModelNew" not in rewritten


def test_a_failure_that_is_repaired_is_reported_and_repair_is_improved(tmp_path: Path) -> None:
    class Clumsy(Model):
        def __call__(self, body: JSON) -> Step:
            step = super().__call__(body)
            return submit(source("wrong_value"), "break", "So.") if self.asked[-1] == "rewrite" else step

    model = Clumsy(repair=FAST)
    practised = practise(tmp_path, model, two_problems(), evaluations=16)
    best = practised.compiled.instructions[practised.compiled.best]
    assert FAST in best[REPAIR]
    assert any("wrong_value: as told" in page for page in model.pages)


def test_a_reply_without_instructions_is_passed_over(tmp_path: Path) -> None:
    class Silent(Model):
        def _reflect(self, user: str) -> Step:
            super()._reflect(user)
            return Text("I would rather not.")

    practised = practise(tmp_path, Silent(), two_problems(), evaluations=5)
    assert not practised.compiled.improved
    assert practised.compiled.proposals == 0


def test_a_bug_is_no_answer_that_scores_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        practise(tmp_path, Model(), two_problems(), evaluator=Counting(bug_after=2))


def reflection(tmp_path: Path) -> Reflection:
    with OpenAIServer([]) as server:
        rollouts: Any = None
        return Reflection(native(tmp_path, server), rollouts, KernelProgram(*KIND), KIND)


@pytest.mark.parametrize("predictor", [ANALYSE, REWRITE, REPAIR])
def test_what_must_not_change_is_taken_out_and_put_back(tmp_path: Path, predictor: str) -> None:
    found = reflection(tmp_path)
    (text,) = (p.signature.instructions for name, p in KernelProgram(*KIND).named_predictors() if name == predictor)
    folded = found.folded(predictor, text)
    assert found.unfolded(predictor, folded) == text
    assert ("{{contract}}" in folded) == (predictor != ANALYSE)
    assert "You are an Agent" not in folded


@pytest.mark.parametrize("reply", ["Be quick.", "{{contract}}\nBe quick. {{contract}}"])
def test_the_contract_stands_once_whatever_is_proposed(tmp_path: Path, reply: str) -> None:
    text = reflection(tmp_path).unfolded(REWRITE, reply)
    assert text.count("It defines `class ModelNew(nn.Module)`") == 1
    assert text.rstrip().endswith("and ends the turn.")


def test_the_split_is_seeded_and_keeps_problems_apart() -> None:
    many = situations(7)
    twins = [dataclasses.replace(turn, kernel=PythonKernel.parse(source(99.0))) for turn in many[:2]]
    everything = [*many, *twins]
    first = split(everything, 0)
    assert first == split(everything, 0)
    assert any(split(everything, seed) != first for seed in range(1, 5))
    assert {situation.digest for situation in (*first.training, *first.validation)} == {
        situation.digest for situation in everything
    }
    assert not {situation.problem.id for situation in first.training} & {
        situation.problem.id for situation in first.validation
    }
    assert 1 <= len(first.validation) <= 4


def test_contexts_of_one_problem_are_split_and_a_single_one_serves_twice() -> None:
    problem = situations(1)[0]
    same = [dataclasses.replace(problem, kernel=PythonKernel.parse(source(float(n)))) for n in range(1, 4)]
    parted = split(same, 0)
    assert (len(parted.training), len(parted.validation)) == (2, 1)
    assert split(same[:1], 0) == Split((same[0],), (same[0],))
