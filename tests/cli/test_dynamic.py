"""`optimize --dynamic`: which configs serve which sizes, what is refused, and a whole run on a CPU and on a GPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from kernelwright.agent.loop import Outcome
from kernelwright.commands._optimize.by_size import SizedKernel, of_rule, rule_of, write_by_size
from kernelwright.core import Config, Evaluation, JointProblem, PythonKernel, TorchProblem
from kernelwright.core.dynamic_size import FreeSize
from kernelwright.core.events import Event, Warned
from kernelwright.core.workload_rows import merged

from ..conftest import SCALE_KERNEL
from ..deploy.results import own_tests
from ..deploy.test_dynamic import CHOICE, PROBLEM, SCAN, SOFT_CAPPED
from ..fakes import evaluation
from ..user_packages import LINEAR, apply, run_tests
from .commands import kernelwright, refused

NORM = TorchProblem(id="norm", name="norm", source=PROBLEM)
KERNEL = PythonKernel.parse(SCALE_KERNEL, "scale")


def timed(problem: JointProblem, block: int, *times: float) -> Evaluation:
    config = Config({"BLOCK": block})
    rows = {name: evaluation(KERNEL, config, ms) for name, ms in zip(problem.members, times, strict=True)}
    return merged(rows).model_copy(update={"config": config})


def test_a_range_is_judged_at_both_ends_and_between() -> None:
    problem = JointProblem.in_range(NORM, FreeSize("tokens", 1, 4096))
    assert list(problem.members) == [f"tokens={value}" for value in (1, 8, 65, 512, 4096)]
    assert problem.sizes["tokens"] == 4096 and problem.free == FreeSize("tokens", 1, 4096)
    assert list(JointProblem.in_range(NORM, FreeSize("tokens", 3, 4)).members) == ["tokens=3", "tokens=4"]


def test_few_configs_serve_parts_of_the_range() -> None:
    problem = JointProblem.in_range(NORM, FreeSize("tokens", 1, 4096))
    small, large = timed(problem, 1, 1.0, 1.0, 2.0, 8.0, 64.0), timed(problem, 8, 4.0, 4.0, 2.5, 4.0, 32.0)
    close = timed(problem, 2, 0.999, 1.01, 2.02, 8.0, 64.0)
    rule = rule_of(problem, small, [small, large, close])
    served = [(part.serves.low, part.serves.high, part.config["BLOCK"]) for part in rule.parts]
    assert served == [(1, 256, 1), (257, 4096, 8)]
    assert [part.middle for part in rule.parts] == [8, 512] and rule.worst < 1.01
    one = rule_of(problem, close, [close, timed(problem, 4, 1.0, 1.0, 2.0, 8.0, 63.0)])
    assert len(one.parts) == 1 and one.parts[0].serves == problem.free  # what little is lost is not worth a second


def test_kernels_of_an_earlier_run_stay_where_no_config_passes(tmp_path: Path) -> None:
    problem = JointProblem.in_range(NORM, FreeSize("tokens", 1, 4096))
    best = timed(problem, 1, 1.0, 1.0, 2.0, 8.0, 64.0)
    outcome = Outcome(best, KERNEL, best, (), "the limit", verified=True)

    class Judge:
        def contest(self, member: TorchProblem, kernels: Sequence[PythonKernel]) -> list[Evaluation]:
            return [evaluation(kernel, Config({}), "wrong_value") for kernel in kernels]

    earlier, events = tmp_path / "tokens_1_4096.py", list[Event]()
    earlier.write_text("an earlier kernel")
    found = write_by_size(tmp_path, problem, outcome, KERNEL, [best], cast("Any", Judge()), events.append)
    assert found == (None, ()) and earlier.read_text() == "an earlier kernel"
    assert [*tmp_path.iterdir()] == [earlier] and isinstance(events[0], Warned)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dynamic", "tokens"), "--dynamic 'tokens' is not a range; write tokens=1..8192"),
        (("--dynamic", "tokens=5..5"), "--dynamic 'tokens=5..5' is one size"),
        (("--dynamic", "tokens=1..8", "--backward"), "--dynamic does not go together with --backward"),
        (("--dynamic", "rows=1..8"), "has no size rows; it has batch_size"),
    ],
)
def test_ranges_that_cannot_be(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    run = kernelwright("optimize", "--kernel", "level2/2_12", "--problem", "level2/2_12", *arguments, cwd=tmp_path)
    assert message in refused(run)


@pytest.mark.parametrize("others", [("--batch", "kernels.txt"), ("--recorded", "recorded", "--time-limit", "9")])
def test_a_range_belongs_to_one_problem(tmp_path: Path, others: tuple[str, ...]) -> None:
    (tmp_path / "kernels.txt").write_text("1_19\n")
    run = kernelwright("optimize", *others, "--dynamic", "n=1..64", cwd=tmp_path)
    assert "--dynamic and --backward belong to --kernel and --problem" in refused(run)


def test_a_model_that_reads_the_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "norm.py").write_text(PROBLEM.replace("x.pow(2)", "x.pow(2 if tokens else 3)"))
    options = ("--problem", "norm.py", "--dynamic", "tokens=1..8", "--device", "cpu")
    run = kernelwright("optimize", "--kernel", "level2/2_12", *options, cwd=tmp_path)
    assert "the Model reads tokens while it computes; take it from its inputs" in refused(run)


@pytest.mark.timeout(900)
def test_a_kernel_of_a_range_is_optimized_and_deployed(tmp_path: Path) -> None:
    sizes = ("--workload", "tiny", "--dynamic", "batch_size=4..64", "--device", "cpu", "--max-trials", "3")
    run = kernelwright("optimize", "--kernel", "level2/2_12", *sizes, cwd=tmp_path)
    assert "kernels and rule of the range" in run.stdout, run.stdout + run.stderr
    (rule,) = (tmp_path / "results" / "dynamic").glob("*/rule.json")
    found = json.loads(rule.read_text())
    assert (found["size"], found["from"], found["to"]) == ("batch_size", 4, 64) and found["worst"] >= 1
    written = sorted(rule.parent.glob("*.py"))
    assert [part["kernel"] for part in found["rule"]] == [path.name for path in written]
    for path in written:  # tests' runs replay nothing on a CPU
        path.write_text(path.read_text().replace("'replayed': False", "'replayed': True"))
    run = kernelwright("deploy", rule.parent, "--name", "mylib::linear", "--output", "out", "--json", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    parts = [f"{part['from']} <= batch_size <= {part['to']}" for part in found["rule"]]
    assert [text.partition(":")[0] for text in json.loads(run.stdout)["serves"]] == parts


@pytest.mark.timeout(900)
def test_a_function_is_optimized_for_a_range(tmp_path: Path) -> None:
    folder = LINEAR.copied(tmp_path)
    function, reference, inputs = LINEAR.at(folder)
    given = ("--reference", reference, "--inputs", inputs, "--patch", "out.diff", "--dynamic", "rows=16..100")
    options = ("--device", "cpu", "--sandbox", "none", "--max-trials", "6")
    run = kernelwright("optimize", "--kernel", function, *given, *options, cwd=folder)
    assert "rule of the range: " in run.stdout, run.stdout + run.stderr
    (rule,) = (folder / "results" / "dynamic").glob("*/rule.json")
    assert [*rule.parent.iterdir()] == [rule], "kernels of a package are its own files"
    found = json.loads(rule.read_text())
    assert (found["size"], found["from"], found["to"]) == ("rows", 16, 100)
    assert found["timed_at"][0] == 16 and found["timed_at"][-1] == 100
    parts = [(part["from"], part["to"]) for part in found["rule"]]
    assert parts[0][0] == 16 and parts[-1][1] == 100
    assert all(before[1] + 1 == after[0] for before, after in pairwise(parts))
    assert all(part["config"] and "kernel" not in part for part in found["rule"])
    if (folder / "out.diff").exists():
        assert apply(folder / "out.diff", folder).returncode == 0
        assert run_tests(folder, interpreted=False).returncode == 0


def test_a_patch_has_the_configs_of_the_rule() -> None:
    problem = JointProblem.in_range(NORM, FreeSize("tokens", 1, 4096))
    small, large = timed(problem, 1, 1.0, 1.0, 2.0, 8.0, 64.0), timed(problem, 8, 4.0, 4.0, 2.5, 4.0, 32.0)
    middle = timed(problem, 4, 1.5, 1.5, 2.0, 4.5, 36.0)
    rule = rule_of(problem, middle, [small, large])
    kept = [SizedKernel(part.serves, None, part.config, 1.0) for part in rule.parts]
    assert [item.config["BLOCK"] for item in of_rule(middle, [small, large], kept)] == [1, 8]
    assert of_rule(middle, [small, large], []) == [middle]


@pytest.mark.gpu
@pytest.mark.parametrize("source", [PROBLEM, SOFT_CAPPED, SCAN, CHOICE], ids=["norm", "attention", "scan", "choice"])
def test_a_module_is_optimized_for_a_range_and_deployed(tmp_path: Path, source: str) -> None:
    (tmp_path / "norm.py").write_text(source)
    sizes = ("--dynamic", "tokens=1..3000", "--device", "cuda", "--max-trials", "20", "--time-limit", "60")
    run = kernelwright("optimize", "--problem", "norm.py", *sizes, cwd=tmp_path)
    (rule,) = (tmp_path / "results" / "dynamic").glob("*/rule.json")
    assert "size_tokens" in next(rule.parent.glob("*.py")).read_text(), run.stdout + run.stderr
    options = ("--problem", "norm.py", "--name", "mylib::norm", "--output", "out")
    run = kernelwright("deploy", rule.parent, *options, cwd=tmp_path)
    assert run.returncode == 0 and "ok" in run.stdout, run.stderr
    tried = own_tests(tmp_path / "out")
    assert tried.returncode == 0, tried.stdout
