"""Values by size, where workloads have different best values: at the places of the values, in the user's own files."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from kernelwright.core import Config, Evaluation, Evaluator
from kernelwright.core.events import Event, Note
from kernelwright.corpus.functions.size_choices import SizeChoice, between, chosen
from kernelwright.corpus.functions.translation import UserFunction, translate
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.sandbox import bubblewrap, landlock
from kernelwright.evaluators.sandbox.places import Places
from kernelwright.evaluators.settings import Sandbox, Settings
from kernelwright.evaluators.sizes_in_scope import size_keys, sizes_in_scope
from kernelwright.runtime.evaluators import at_workloads
from kernelwright.runtime.jobs import Job
from kernelwright.runtime.write_result import (
    NOTHING,
    PatchDestination,
    distinguishing_keys,
    select_autotune_configs,
    write_result,
)

from ...core.test_workload_rows import merged, timed
from ...user_packages import apply
from .test_launches import HEAD, TAIL

WORKLOADS = '\n\nWORKLOADS = {"few": {"n": 100}, "many": {"n": 3000}}\n'
LAUNCH = "    _scale[(triton.cdiv(n, B),)](x, y, n, 2.0, B)\n"


def written(tmp_path: Path, body: str, before: str = "", head: str = "x") -> UserFunction:
    text = f"{HEAD}{before}def scale({head}):\n    y = torch.empty_like(x)\n{body}    return y\n{TAIL}{WORKLOADS}"
    path = tmp_path / "ops.py"
    path.write_text(text)
    return translate(f"{path}::scale", f"{path}::scale_torch", f"{path}::inputs")


def at_both(config: Mapping[str, int], few: float, many: float) -> Evaluation:
    return merged({"few": timed(few), "many": timed(many)}).model_copy(update={"config": dict(config)})


def result_of(function: UserFunction, few: Mapping[str, int], many: Mapping[str, int], folder: Path) -> tuple[str, str]:
    """The file after the patch, for a run in which each workload has another best config; and what was said."""
    heard: list[Event] = []
    tried = [at_both({}, 3.0, 9.0), at_both(few, 1.0, 9.0), at_both(many, 2.0, 4.0)]
    best = tried[2]
    job = Job(function.kernel, function.problem, "cpu", "scale", function=function)
    kernel = function.kernel.bind(many)
    with contextlib.ExitStack() as stack:
        given = (job, kernel, best, [Config(many)], tried, interpreter(stack), heard.append, tried)
        patch = write_result(PatchDestination(folder / "out.diff"), *given)
    said = " ".join(event.text for event in heard if isinstance(event, Note))
    if patch is not None:
        assert (run := apply(patch, folder)).returncode == 0, run.stderr
    return function.target.path.read_text(), said


def interpreter(stack: contextlib.ExitStack) -> Evaluator:
    """What checks the patched package."""
    return at_workloads(lambda: LocalEvaluator("cpu", Settings(sandbox=Sandbox.NONE)), stack)


def blocks(folder: Path) -> list[tuple[int, int]]:
    """Block and warps of a launch of the patched file at both workloads, whose results are right."""
    program = (
        "import ops, torch\nfrom triton.runtime.interpreter import GridExecutor\nreally = GridExecutor.__call__\n"
        "def seen(self, *args, **options):\n    print(args[4] if len(args) > 4 else options['BLOCK'], "
        "options.get('num_warps', 4))\n    return really(self, *args, **options)\n"
        "GridExecutor.__call__ = seen\n"
        "for sizes in ops.WORKLOADS.values():\n    x, = ops.inputs(0, **sizes)\n"
        "    assert torch.equal(ops.scale(x), 2 * x)\n"
    )
    environment = {"TRITON_INTERPRET": "1", "PATH": ""}
    run = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return [(int(a), int(b)) for a, b in (line.split() for line in run.stdout.splitlines())]


SIZE = "    n = x.numel()\n"


@pytest.mark.parametrize(
    ("body", "head", "back"),
    [
        (SIZE + "    B = 32  # a tile\n" + LAUNCH, "x", "    B = 64 if n <= 512 else 256  # a tile\n"),
        (SIZE + "    B, C = 32, 4\n" + LAUNCH, "x", "    B, C = 64 if n <= 512 else 256, 4\n"),
        (
            "    _scale[(3,)](x, y, x.numel(), 2.0, BLOCK=32)\n",
            "x",
            "2.0, BLOCK=64 if x.shape[0] <= 512 else 256)\n",
        ),
        (
            SIZE + "    B = triton.next_power_of_2(n)\n" + LAUNCH,
            "x",
            "    B = 64 if n <= 512 else 256\n",
        ),
        (
            SIZE + "    B, C = settings(n)\n" + LAUNCH,
            "x",
            "settings(n)\n    B = 64 if n <= 512 else 256\n",
        ),
        (
            SIZE + "    made = functools.partial(dict, BLOCK=64)()\n    _scale[(3,)](x, y, n, 2.0, **made)\n",
            "x",
            '**{**made, "BLOCK": 64 if n <= 512 else 256})\n',
        ),
        (
            SIZE + LAUNCH,
            "x, B=32",
            "def scale(x, B=None):\n    if B is None:\n        B = 64 if x.shape[0] <= 512 else 256\n    y =",
        ),
    ],
    ids=["local", "tuple", "argument", "computed", "of a helper", "entries", "default"],
)
def test_a_value_by_size_stands_where_the_value_stood(tmp_path: Path, body: str, head: str, back: str) -> None:
    function = written(tmp_path, body, head=head)
    text, said = result_of(function, {"SCALE_BLOCK": 64}, {"SCALE_BLOCK": 256}, tmp_path)
    assert back in text and not said
    assert [block for block, _ in blocks(tmp_path)] == [64, 256]


def test_the_code_may_go_on_choosing_at_some_sizes(tmp_path: Path) -> None:
    function = written(tmp_path, SIZE + "    B = min(64, triton.next_power_of_2(n))\n" + LAUNCH)
    few, many = {"SCALE_BLOCK": 0, "NUM_WARPS": 4}, {"SCALE_BLOCK": 256, "NUM_WARPS": 8}
    text, _ = result_of(function, few, many, tmp_path)
    assert "    B = min(64, triton.next_power_of_2(n)) if n <= 512 else 256\n" in text
    assert ", B, num_warps=4 if n <= 512 else 8)" in text
    assert blocks(tmp_path) == [(64, 4), (256, 8)]


def test_of_a_choice_by_size_the_branches_that_ran_change(tmp_path: Path) -> None:
    branches = "    if n > 9999:\n        B = 16\n    elif n > 999:\n        B = 128\n    else:\n        B = 32\n"
    function = written(tmp_path, SIZE + branches + LAUNCH)
    text, _ = result_of(function, {"SCALE_BLOCK": 64}, {"SCALE_BLOCK": 256}, tmp_path)
    assert branches.replace("128", "256").replace("32", "64") in text


def test_heuristics_choose_by_what_they_are_told(tmp_path: Path) -> None:
    function = written(tmp_path, "    _scale[(3,)](x, y, x.numel(), 2.0)\n")
    path = tmp_path / "ops.py"
    said = '@triton.heuristics({"BLOCK": lambda args: 32})\n'
    path.write_text(path.read_text().replace("@triton.jit\ndef _scale", f"{said}@triton.jit\ndef _scale"))
    function = translate(f"{path}::scale", f"{path}::scale_torch", f"{path}::inputs")
    text, _ = result_of(function, {"SCALE_BLOCK": 64}, {"SCALE_BLOCK": 256}, tmp_path)
    assert 'lambda args: 64 if args["n"] <= 512 else 256}' in text


def test_what_no_size_tells_apart_gets_one_value_and_the_result_says_so(tmp_path: Path) -> None:
    """A constant of the module has no sizes beside it; other values of a launch are still chosen by size."""
    function = written(tmp_path, SIZE + "    B = SIZE\n" + LAUNCH)
    assert len(set(size_keys(function, function.problem).values())) == 2
    few, many = {"SCALE_BLOCK": 128, "NUM_WARPS": 2}, {"SCALE_BLOCK": 256, "NUM_WARPS": 8}
    text, said = result_of(function, few, many, tmp_path)
    assert "tl.constexpr(256)" in text and ", B, num_warps=8)" in text
    assert "SCALE_BLOCK: other values are faster at some workloads, but no size in scope tells these apart" in said


def test_names_that_may_lack_a_value_are_not_used(tmp_path: Path) -> None:
    body = "    if x.dim() == 1:\n        n = x.numel()\n    B = 32\n" + LAUNCH
    text, _ = result_of(written(tmp_path, body), {"SCALE_BLOCK": 64}, {"SCALE_BLOCK": 256}, tmp_path)
    assert "    B = 64 if x.shape[0] <= 512 else 256\n" in text


def test_the_start_stays_where_it_is_the_fastest(tmp_path: Path) -> None:
    """The winner over all workloads is the start; at one of them another config is faster."""
    function = written(tmp_path, SIZE + "    B = 32\n" + LAUNCH)
    job = Job(function.kernel, function.problem, "cpu", "scale", function=function)
    start, other = at_both({"SCALE_BLOCK": 32}, 1.0, 4.0), at_both({"SCALE_BLOCK": 256}, 9.0, 3.0)
    heard: list[Event] = []
    given = (PatchDestination(tmp_path / "out.diff"), job, function.kernel, start, [Config(start.config)])
    with contextlib.ExitStack() as stack:
        judge = interpreter(stack)
        assert write_result(*given, [start, other], judge, heard.append, [start]) is None
        assert heard == [Note(NOTHING)]
        assert write_result(*given, [start, other], judge, heard.append, [start, other]) is not None
    assert "+    B = 32 if n <= 512 else 256\n" in (tmp_path / "out.diff").read_text()


AUTOTUNED = """@triton.autotune([triton.Config({"TILE": 32}), triton.Config({"TILE": 64})], key=KEY)
@triton.jit
def _copy(x, y, n, TILE: tl.constexpr):
    for start in range(tl.program_id(0) * TILE, n, tl.num_programs(0) * TILE):
        o = start + tl.arange(0, TILE)
        tl.store(y + o, tl.load(x + o, mask=o < n), mask=o < n)


"""


@pytest.mark.parametrize(
    ("key", "configs"),
    [('["n"]', ['{"TILE": 256}', '{"TILE": 128}']), ("[]", ['{"TILE": 256}'])],
    ids=["the key tells workloads apart", "it does not"],
)
def test_constants_of_a_launch_beside_an_autotuner_have_values_by_size(
    tmp_path: Path, key: str, configs: list[str]
) -> None:
    body = SIZE + "    z = torch.empty_like(x)\n    _copy[(3,)](x, z, n)\n    B = 32\n" + LAUNCH.replace("(x, ", "(z, ")
    function = written(tmp_path, body, AUTOTUNED.replace("KEY", key))
    job = Job(function.kernel, function.problem, "cpu", "scale", function=function)
    keys = distinguishing_keys(PatchDestination(tmp_path / "out.diff"), job)
    assert keys.sets == [["few"], ["many"]]
    few, many = {"TILE": 128, "SCALE_BLOCK": 64}, {"TILE": 256, "SCALE_BLOCK": 256}
    tried = [at_both(few, 1.0, 9.0), at_both({**many, "SCALE_BLOCK": 64}, 1.5, 9.0), at_both(many, 3.0, 2.0)]
    tried = [item.model_copy(update={"config": {**function.kernel.config, **item.config}}) for item in tried]
    best, kernel = tried[2], function.kernel.bind(tried[2].config)
    for_autotuner = select_autotune_configs(best, tried, keys.autotuner)
    with contextlib.ExitStack() as stack:
        given = (job, kernel, best, for_autotuner, tried, interpreter(stack), [].append, tried, keys.autotuner)
        patch = write_result(PatchDestination(tmp_path / "out.diff"), *given)
    assert patch is not None and apply(patch, tmp_path).returncode == 0
    text = (tmp_path / "ops.py").read_text()
    assert "    B = 64 if n <= 512 else 256\n" in text
    assert [item in text for item in configs] == [True] * len(configs)
    assert text.count("triton.Config(") == len(configs)


def test_the_function_is_run_in_a_sandbox(tmp_path: Path) -> None:
    """What it reads and writes of the user's own files would stand among the sizes in scope."""
    if not landlock.abi() and bubblewrap.obstacle(Places.of_this_process()) is not None:
        pytest.skip("no sandbox works here")
    secret, victim = tmp_path / "secret", tmp_path / "victim"
    secret.write_text("PLANTED-SECRET")
    tried = (
        "def tried(path, mode):\n    try:\n        with open(path, mode) as file:\n"
        "            return file.write('x') if mode == 'w' else len(file.read())\n"
        "    except OSError:\n        return 0\n\n\n"
    )
    tries = f"    read, wrote = tried({str(secret)!r}, 'r'), tried({str(victim)!r}, 'w')\n"
    function = written(tmp_path, tries + SIZE + "    B = 32\n" + LAUNCH, before=tried)
    found = sizes_in_scope(function, function.problem)
    assert found is not None
    (scopes,) = [scopes for key, scopes in found.at.items() if key.constant == "SCALE_BLOCK"]
    assert {name: (sizes["n"], sizes["read"], sizes["wrote"]) for name, sizes in scopes.items() if sizes} == {
        "few": (100, 0, 0),
        "many": (3000, 0, 0),
    }
    assert not victim.exists()


@pytest.mark.parametrize(
    "answer",
    ["[1]", '{"few": null, "many": null}', '{"few": {"ended": true, "sizes": {"0": {"n": "import os"}}}}', "{}", "9"],
)
def test_an_answer_of_another_form_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    function = written(tmp_path, SIZE + "    B = 32\n" + LAUNCH)
    monkeypatch.setattr("kernelwright.evaluators.sizes_in_scope._PROGRAM", f"print({answer!r})")
    assert sizes_in_scope(function, function.problem) is None


def test_a_choice_has_its_bounds_between_the_sizes_that_were_measured() -> None:
    sizes = {"a": {"n": 1, "m": 7}, "b": {"n": 16, "m": 7}, "c": {"n": 4096, "m": 9}}
    choice = chosen({"a": 1, "b": 2, "c": 2}, sizes, {})
    assert choice == SizeChoice("n", ((1, 4),), 2)
    assert choice.text(2, "f() if x else y") == "1 if n <= 4 else (f() if x else y)"
    assert chosen({"a": 1, "b": 1, "c": 2}, sizes, {name: {"M": value["m"]} for name, value in sizes.items()}) == (
        SizeChoice("m", ((1, 8),), 2)
    )
    assert chosen({"a": 1, "b": 2, "c": 2}, {name: {"m": size["m"]} for name, size in sizes.items()}, {}) is None
    assert SizeChoice("n", ((0, 4),), 2).entry("B") == '**({} if n <= 4 else {"B": 2})'
    assert (between(3, 4), between(0, 9), between(64, 4096), between(5, 7)) == (3, 0, 512, 5)
