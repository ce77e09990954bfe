"""A function of the user's own, from the command or the call to a patch; entries of Triton's cache."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import kernelwright
import kernelwright.commands.tune.kernel as tune_module
import pytest
from kernelwright.core import Config, Evaluation, KernelError, Profile, Status, Tuner
from kernelwright.core.events import Event, Note
from kernelwright.core.workload_rows import WorkloadKeys, merged
from kernelwright.corpus.functions.triton_cache import enter_timings
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.sandbox import bubblewrap, landlock
from kernelwright.evaluators.sandbox.places import Places
from kernelwright.evaluators.settings import Sandbox, Settings
from kernelwright.runtime.command import NOTHING_FASTER
from kernelwright.runtime.evaluators import at_workloads
from kernelwright.runtime.jobs import Job
from kernelwright.runtime.write_result import (
    NOTHING,
    PatchDestination,
    distinguishing_keys,
    select_autotune_configs,
    write_result,
)
from kernelwright.tuners import catalogue
from kernelwright.tuners.per_workload import TunerPerWorkload
from kernelwright.tuners.search import Found, Search

from ..cli.commands import kernelwright as command
from ..cli.commands import refused
from ..core.test_workload_rows import timed
from ..user_packages import LINEAR, RMS_NORM, SCALED_MM, SWIGLU, UserPackage, apply, run_tests

HERE = ("--device", "cpu", "--sandbox", "none")


def test_a_function_on_the_cpu_is_tuned_and_comes_back_as_a_patch(tmp_path: Path) -> None:
    """Real compiles and timings at two workloads, the patch applied, and the package's own tests."""
    folder = LINEAR.copied(tmp_path)
    function, reference, inputs = LINEAR.at(folder)
    patch = folder / "out.diff"
    given = ("--reference", reference, "--inputs", inputs, "--patch", patch, "--json", "--tuner", "grid")
    for _ in range(3):  # a machine that others use may leave doubt whether it is faster
        run = command("tune", "kernel", function, *given, *HERE, "--param", "BLOCK_N=1,8", cwd=folder)
        assert run.returncode in (0, NOTHING_FASTER), run.stderr
        found = json.loads(run.stdout)
        if run.returncode == 0:
            break
    assert found["workload"] == "few | many"
    assert found["best"]["config"] == {"BLOCK_N": 8}
    assert set(found["best"]["workloads"]) == {"few", "many"}
    assert found["patch"] == str(patch)
    assert (applied := apply(patch, folder)).returncode == 0, applied.stderr
    assert "BLOCK_N = 8\n" in (folder / "linear.py").read_text()
    tested = run_tests(folder, interpreted=False)
    assert tested.returncode == 0, tested.stdout


@pytest.mark.parametrize("package", [RMS_NORM, SCALED_MM], ids=lambda package: package.name)
def test_triton_functions_are_correct_as_kernel_files(package: UserPackage, tmp_path: Path) -> None:
    function, reference, inputs = package.at(package.copied(tmp_path))
    found = kernelwright.evaluate(function, reference=reference, inputs=inputs, device="cpu", sandbox="none")
    assert found.correct, found.evaluation
    evaluation = found.evaluation
    assert evaluation is not None and len(evaluation.workloads) == 2
    assert {row.status for row in evaluation.workloads.values()} == {Status.OK}


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", ["landlock", "bwrap"])
def test_workers_in_a_sandbox_import_the_package(sandbox: str, tmp_path: Path) -> None:
    """It lies in a temporary folder, which is hidden from them but for the package's own files."""
    places = Places.of_this_process()
    if (sandbox == "landlock" and not landlock.abi()) or (sandbox == "bwrap" and bubblewrap.obstacle(places)):
        pytest.skip(f"{sandbox} does not work here")
    folder = RMS_NORM.copied(tmp_path)
    (folder / "secret.txt").write_text("hidden")
    path = folder / "rownorm" / "ops" / "rms_norm.py"
    text = path.read_text().replace("import torch\n", "import pathlib\n\nimport torch\n", 1)
    asked = f"\nSEEN = pathlib.Path({str(folder / 'secret.txt')!r})\n"
    found = "\ntry:\n    READ = SEEN.read_text()\nexcept OSError:\n    READ = ''\nassert not READ, 'it was read'\n"
    path.write_text(text + asked + found)
    function, reference, inputs = RMS_NORM.at(folder)
    result = kernelwright.evaluate(function, reference=reference, inputs=inputs, device="cpu", sandbox=sandbox)
    assert result.correct, result.evaluation


def at_both(config: Config, decode: float, batch: float) -> Evaluation:
    found = merged({"decode": timed(decode), "batch": timed(batch)})
    return found.model_copy(update={"config": dict(config)})


@pytest.mark.parametrize(
    ("batch", "tiles"),
    [(1.0, ['16, "BLOCK_N": 64', '128, "BLOCK_N": 128']), (3.0, [])],
    ids=["faster than their own", "slower than one of their own"],
)
def test_an_autotuner_gets_what_is_faster_at_some_workloads(tmp_path: Path, batch: float, tiles: list[str]) -> None:
    """A decoded token and a batch want other tiles: no config is the fastest at both, and the code stays as it is."""
    folder = SWIGLU.copied(tmp_path)
    function, heard = SWIGLU.translated(folder), list[Event]()
    job = Job(function.kernel, function.problem, "cuda", "swiglu", function=function)
    first, second, third = function.kernel.declared_configs
    start = at_both(first, 1.0, 4.0)
    wide = Config({**first, "BLOCK_M": 128, "BLOCK_N": 128})
    tried = [start, at_both(second, 2.0, 2.0), at_both(third, 3.0, 3.0), at_both(wide, 3.0, batch)]
    configs = select_autotune_configs(start, tried, {"decode": "16", "batch": "64"})
    destination, kernel = PatchDestination(tmp_path / "out.diff"), job.kernel.bind(first)
    with contextlib.ExitStack() as stack:
        interpreter = at_workloads(lambda: LocalEvaluator("cpu", Settings(sandbox=Sandbox.NONE)), stack)
        patch = write_result(destination, job, kernel, start, configs, tried, interpreter, heard.append)
    assert (patch is not None) is bool(tiles)
    assert heard == ([] if tiles else [Note(NOTHING)])
    if patch is None:
        assert not (tmp_path / "out.diff").exists()
        return
    assert (run := apply(patch, folder)).returncode == 0, run.stderr
    text = (folder / "gatedmlp" / "kernels.py").read_text()
    assert text.count("triton.Config(") == 2 and all(f'"BLOCK_M": {tile}' in text for tile in tiles)


@pytest.mark.parametrize(
    ("package", "keys"), [(SWIGLU, 2), (LINEAR, 0)], ids=lambda package: getattr(package, "name", None)
)
def test_workloads_are_tuned_apart_where_an_autotuner_tells_them_apart(
    package: UserPackage, keys: int, tmp_path: Path
) -> None:
    function = package.translated(package.copied(tmp_path))
    job = Job(function.kernel, function.problem, "cuda", package.name, function=function)
    assert len(distinguishing_keys(PatchDestination(tmp_path / "out.diff"), job).sets) == keys
    assert distinguishing_keys(None, job).sets == []


def test_a_search_knows_what_the_autotuner_tells_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An autotuned function cannot be timed on a CPU: a function of TileLang stands in for it."""
    function, reference, inputs = LINEAR.at(LINEAR.copied(tmp_path))
    made: list[Search] = []

    class Stopped(Search):
        def run(self) -> Found:
            made.append(self)
            raise KeyboardInterrupt

    profiles: list[Profile] = []
    create = catalogue.create_tuner

    def noting(*given: Any) -> Tuner:
        profiles.append(given[5])
        return create(*given)

    monkeypatch.setattr(tune_module, "Search", Stopped)
    monkeypatch.setattr(
        tune_module, "distinguishing_keys", lambda destination, job: WorkloadKeys({"few": "16", "many": "64"})
    )
    monkeypatch.setattr(catalogue, "create_tuner", noting)
    given = {"reference": reference, "inputs": inputs, "device": "cpu", "sandbox": "none", "tuner": "hill_climb"}
    with pytest.raises(KeyboardInterrupt):
        kernelwright.tune(function, **given, patch=tmp_path / "out.diff", results=tmp_path / "results")
    (search,) = made
    assert isinstance(search.tuner, TunerPerWorkload)
    assert search.workload_sets == [["few"], ["many"]]
    few, many = profiles
    assert few.flops < many.flops, "each tuner knows its own workload"


def test_usage_is_one_line(tmp_path: Path) -> None:
    folder = LINEAR.copied(tmp_path)
    function, reference, inputs = LINEAR.at(folder)
    given = ("--reference", reference, "--inputs", inputs)
    assert "--reference belongs to a function" in refused(command("evaluate", "1_19", *given[:2], cwd=folder))
    assert "--patch belongs to a function" in refused(command("tune", "kernel", "1_19", "--patch", "x", cwd=folder))
    assert "a function needs --inputs" in refused(command("evaluate", function, *given[:2], *HERE, cwd=folder))
    wrong = command("evaluate", "--kernel", function, *given, "--problem", "1_19", *HERE, cwd=folder)
    assert "--problem belongs to a kernel file" in refused(wrong)
    function, reference, inputs = SWIGLU.at(SWIGLU.copied(tmp_path))
    wrong = command("optimize", "--kernel", function, "--reference", reference, "--inputs", inputs, *HERE, cwd=folder)
    assert "a Triton kernel can be checked on a CPU but not timed" in refused(wrong)


BAD = """
import torch
from linear import linear_relu


def random(x, weight):
    return torch.relu(x @ weight) + torch.rand(1)


def fails(x, weight):
    raise RuntimeError("no such thing")


def one(seed, rows=16):
    return torch.randn(rows, 16)
"""


@pytest.mark.parametrize(
    ("reference", "inputs", "said"),
    [
        ("bad.py::random", "linear.py::inputs", "the reference of linear/linear_relu fails: "),
        ("bad.py::fails", "linear.py::inputs", "RuntimeError: no such thing"),
        ("linear.py::linear_relu_torch", "bad.py::one", "missing 1 required positional argument: 'weight'"),
    ],
)
def test_a_reference_or_inputs_that_do_not_fit_say_so(tmp_path: Path, reference: str, inputs: str, said: str) -> None:
    folder = LINEAR.copied(tmp_path)
    (folder / "bad.py").write_text(BAD)
    given = ("--reference", reference, "--inputs", inputs, *HERE)
    run = command("evaluate", "--kernel", "linear.py::linear_relu", *given, cwd=folder)
    assert run.returncode == 2
    assert said in run.stderr


READ = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from triton.runtime import autotuner, jit
from triton.runtime.driver import driver
from kernelwright.corpus.functions.triton_cache_program import _Driver
import torch
driver.set_active(_Driver(["cuda", 90, 32]))
jit.JITFunction.run = lambda self, *args, **options: None
def bench(*args, **options):
    raise SystemExit("it was benchmarked")
autotuner.Autotuner._bench = bench
from gatedmlp.ops import swiglu, swiglu_kernel
for tokens in (16, 64):
    x, gate, up = (torch.randn(rows, 128).half() for rows in (tokens, 64, 64))
    swiglu(x, gate, up)
    print(swiglu_kernel.best_config.kwargs["BLOCK_M"])
"""


def test_a_fresh_process_takes_our_choice_without_benchmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as a machine without a GPU shows it: Triton's own cache, for an H200 that is not there."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "1")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    function = SWIGLU.translated()

    def measured(index: int, decode: float, batch: float) -> Evaluation:
        evaluation = merged({"decode": timed(decode), "batch": timed(batch)})
        return evaluation.model_copy(update={"config": dict(function.kernel.declared_configs[index])})

    times = [measured(0, 1.0, 9.0), measured(1, 2.0, 3.0), measured(2, 3.0, 4.0)]
    entered = enter_timings(function, function.problem, times, {}, ("cuda", 90, 32))
    assert len(entered) == 2 and all(path.name == "swiglu_kernel.autotune.json" for path in entered)
    folders = json.dumps([str(function.target.path.parents[1])])
    fresh = subprocess.run([sys.executable, "-c", READ, folders], capture_output=True, text=True)
    assert fresh.stdout.split() == ["16", "64"], fresh.stderr


def test_what_triton_would_not_cache_says_so() -> None:
    with pytest.raises(KernelError, match=r"has no kernel under @triton\.autotune"):
        enter_timings(LINEAR.translated(), LINEAR.translated().problem, [], {})


def test_what_the_users_files_do_is_theirs_and_what_a_candidate_adds_is_judged(tmp_path: Path) -> None:
    folder = RMS_NORM.copied(tmp_path)
    path = folder / "rownorm" / "ops" / "rms_norm.py"
    path.write_text(
        "import time\nSTART = time.perf_counter()\n"
        + path.read_text().replace("from __future__ import annotations\n", "")
    )
    function = RMS_NORM.translated(folder)
    with LocalEvaluator("cpu", Settings(sandbox=Sandbox.NONE)) as evaluator:
        assert evaluator._broken_rule(function.problem, function.kernel) is None
        changed = function.kernel.source.replace(
            "y = torch.empty_like(x)", "y = torch.nn.functional.rms_norm(x, x.shape[-1:])"
        )
        found = evaluator._broken_rule(function.problem, replace(function.kernel, source=changed))
    assert found is not None and found.rule == "torch-operator"
