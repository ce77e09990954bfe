"""Every option of `tune kernel` arrives where it is to act; the evaluator is made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.core import Config, Kernel, Profile, PythonKernel, SearchSpace
from kernelwright.evaluators.settings import Sandbox, Settings
from kernelwright.tuners import discovery

from ..conftest import SCALE_KERNEL
from ..fakes import PROFILE
from .commands import refused_here
from .made_up import MadeUp, install, summary_of, tuned_here
from .tuning import journal_in

OWN = Config({"BLOCK": 8})


def without_trust(made_up: MadeUp) -> tuple[object, ...]:
    """What the evaluator was made from, with the limit of a compilation alone of its settings; SCALE has no sandbox."""
    *before, settings, remote = made_up.asked_for
    assert isinstance(settings, Settings) and settings.sandbox is Sandbox.NONE
    return (*before, settings.limits.compile_s, remote)


@pytest.fixture
def made_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    monkeypatch.chdir(folder)
    return install(MadeUp(), monkeypatch)


def test_what_arrives_when_nothing_is_reported(made_up: MadeUp) -> None:
    run = tuned_here("--tuner", "hill_climb")
    assert run.exit_code == 0, run.output
    assert without_trust(made_up) == (["cpu"], None, True, 120.0, None)
    assert (made_up.created["name"], made_up.created["seed"], made_up.created["stride"]) == ("hill_climb", 0, 1)
    assert (made_up.created["warm"], made_up.created["start"]) == ([], [OWN])
    assert made_up.created["profile"] is PROFILE
    assert made_up.measured[0] == OWN


def test_the_default_tuner_begins_with_the_kernels_own_config(made_up: MadeUp) -> None:
    assert summary_of(tuned_here("--json"))["tuner"] == made_up.created["name"] == "portfolio"
    assert made_up.measured[0] == OWN


def test_seed_compilers_and_compile_limit(made_up: MadeUp) -> None:
    run = tuned_here("--tuner", "random", "--seed", 7, "--compilers", 3, "--compile-limit", 5, "--json")
    assert summary_of(run)["seed"] == made_up.created["seed"] == 7
    assert without_trust(made_up) == (["cpu"], 3, False, 5.0, None)


def test_stride(made_up: MadeUp) -> None:
    assert tuned_here("--tuner", "grid", "--stride", 2).exit_code == 0
    assert [config["BLOCK"] for config in made_up.measured] == [4, 16, 8]


@pytest.mark.parametrize(
    ("arguments", "trials", "stopped"),
    [
        (["--trials", "2"], 2, "budget of 2 trials used up"),
        (["--param", "BLOCK=32,16,8,4", "--patience", "2"], 3, "2 trials in a row were no better"),
        ([], 3, "every config of the space was tried"),
    ],
)
def test_what_ends_a_search(made_up: MadeUp, arguments: list[str], trials: int, stopped: str) -> None:
    found = summary_of(tuned_here("--tuner", "grid", "--json", *arguments))
    assert (found["trials"], found["stopped"]) == (trials, stopped)


def test_seconds(made_up: MadeUp) -> None:
    run = tuned_here("--seconds", "1e-9")
    assert run.exit_code == 1
    assert run.stderr.startswith("failed: nothing was tried: budget of 1e-09 seconds used up; allow more")


def test_the_device_rules_configs_out(made_up: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    def prune(space: SearchSpace, kernel: Kernel, profile: Profile, keep: object) -> tuple[SearchSpace, list[str]]:
        assert profile is PROFILE
        return SearchSpace(space.parameters, ["BLOCK > 4"]), ["BLOCK > 4"]

    monkeypatch.setattr(discovery, "prune", prune)
    run = tuned_here("--tuner", "grid")
    assert "tuning 1_999.py: 2 configs (declared space), 1 ruled out by the device" in run.stdout.splitlines()
    assert "  device: BLOCK > 4" in run.stdout.splitlines()
    assert Config({"BLOCK": 4}) not in made_up.measured
    assert summary_of(tuned_here("--tuner", "grid", "--json"))["space"]["pruned"] == 1
    kept = summary_of(tuned_here("--tuner", "grid", "--json", "--no-prune"))
    assert (kept["space"], kept["trials"]) == ({"origin": "declared", "size": 3, "pruned": 0}, 3)


def test_warm(folder: Path, made_up: MadeUp) -> None:
    (folder / "other.csv").write_text("BLOCK,time_ms\n16,2.0\n4,1.0\n99,1.0\n")
    run = tuned_here("--tuner", "hill_climb", "--warm", "other.csv")
    assert run.exit_code == 0, run.output
    assert [config for config, _ in made_up.created["warm"]] == [{"BLOCK": 16}, {"BLOCK": 4}]
    assert made_up.measured[:2] == [OWN, Config({"BLOCK": 4})]
    assert run.stderr == ""


def test_warm_from_another_kernel_is_taken_with_a_warning(folder: Path, made_up: MadeUp) -> None:
    assert tuned_here("--tuner", "grid").exit_code == 0
    journal = journal_in(folder).rename(folder / "warm.jsonl")
    same = tuned_here("--tuner", "hill_climb", "--warm", journal)
    assert (same.exit_code, same.stderr) == (0, ""), same.output
    (folder / "1_999.py").write_text(SCALE_KERNEL + "\n# another\n")
    other = tuned_here("--tuner", "hill_climb", "--warm", journal)
    assert other.exit_code == 0, other.output
    (line,) = other.stderr.splitlines()
    digest = PythonKernel.parse(SCALE_KERNEL).digest
    assert line == f"warning: --warm {journal} is of another kernel ({digest}), so it only seeds the search"
    assert len(made_up.created["warm"]) == 3


@pytest.mark.parametrize(
    ("declared", "arguments", "blocks"),
    [
        ("[16, 32]", [], [16, 32]),
        ("[4, 4]", ["--param", "BLOCK=4,8"], [4, 8]),
        ("[]", ["--param", "BLOCK=4"], [4]),
    ],
)
def test_a_declaration_that_needs_mending(
    folder: Path, made_up: MadeUp, declared: str, arguments: list[str], blocks: list[int]
) -> None:
    """The kernel's own block of 8 need not be declared, and what is given replaces a mistake."""
    (folder / "1_999.py").write_text(SCALE_KERNEL.replace("[4, 8, 16]", declared))
    run = tuned_here("--tuner", "grid", *arguments)
    assert run.exit_code in (0, 3), run.output
    assert [config["BLOCK"] for config in made_up.measured] == blocks


@pytest.mark.parametrize(
    ("declaration", "says"),
    [
        ('SEARCH_SPACE = {"BLOCK": [4, 4]}', "parameter BLOCK names a value twice"),
        ('SEARCH_SPACE = {"BLOK": [4]}', "SEARCH_SPACE names BLOK"),
        ('SEARCH_SPACE = {}\nCONSTRAINTS = ["WARPS > 1"]', "uses WARPS; the parameters are BLOCK"),
    ],
)
def test_a_mistake_in_a_declaration_is_reported_before_any_work(
    folder: Path, made_up: MadeUp, declaration: str, says: str
) -> None:
    source = SCALE_KERNEL.replace('SEARCH_SPACE = {"BLOCK": [4, 8, 16]}', declaration)
    (folder / "1_999.py").write_text(source)
    assert says in refused_here(tuned_here())
    assert made_up.asked_for == ()
