"""Problems and kernels small enough that a real compile and a real check take about a second."""

from __future__ import annotations

import contextlib
import gc
import itertools
import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Kernel, PythonKernel, Rejection, TorchProblem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import AllowTorch, Limits, Sampling, Sandbox, Settings
from kernelwright.runtime.devices import cuda_devices
from kernelwright.testing import scale
from kernelwright.testing.scale import SCALE_KERNEL as SCALE_KERNEL
from kernelwright.testing.scale import SCALE_PROBLEM as SCALE_PROBLEM

from . import runs, surroundings
from .toy_distribution import toy as toy
from .toy_distribution import toy_site as toy_site

OWN_FOLDER = surroundings.enter()
# A shell that runs tests in its background has them ignore Ctrl-C, nohup a closed terminal, and so would every command
# that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A candidate of plain torch: the evaluator needs a language to be named, not to be used.
TORCH_KERNEL = """
import tilelang.cpu.language as T
import torch
from torch import nn

{top}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def forward(self, x):
        {body}
"""

FAST = Settings(
    allow_torch=AllowTorch.ALL,
    sandbox=Sandbox.NONE,  # one server instead of two; tests/evaluators/sandbox/test_sandbox.py tries each
    second_workload=False,
    checks=2,
    limits=Limits(compile_s=60, call_s=6, memory_gib=1.0, file_gib=0.25),
    sampling=Sampling(seconds=0.03, chunk_s=0.01),
).quick()
PROVING = replace(FAST, replay_on_cpu=True, require_replay=True)
"""With launch plans, which take as long as all else of an evaluation on a CPU: for tests of what they do."""


@pytest.fixture(autouse=True)
def no_rule_fails(request: pytest.FixtureRequest) -> Iterator[None]:
    """A rewrite rule that fails in a test's own process fails the test: a run only logs it and goes on."""
    failed: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            failed.append(self.format(record))

    kept, log = Kept(logging.ERROR), logging.getLogger("kernelwright.agent.applied_rules")
    log.addHandler(kept)
    yield
    log.removeHandler(kept)
    assert not failed or request.node.get_closest_marker("failing_rules"), "\n".join(failed)


@pytest.fixture(scope="session")
def device_memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a GPU's rates are kept, so that one of the workers of a run measures them."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "device_memory"


@pytest.fixture(scope="session")
def on_gpu(device_memory: Path) -> Iterator[OnGpu]:
    """Opens evaluators with these settings on a GPU, with the same servers: each start of one imports torch anew."""
    with LocalEvaluator("cuda", Settings(limits=Limits(compile_s=240)), device_memory) as shared:

        @contextlib.contextmanager
        def opened(**settings: Any) -> Iterator[LocalEvaluator]:
            try:
                with shared.beside(replace(shared.settings, **settings)) as evaluator:
                    yield evaluator
            finally:
                shared.processes.leave_device()  # its memory is for others

        yield opened


class Unguarded(LocalEvaluator):
    """Runs what it would refuse for its source alone, so that what happens then is seen."""

    def _broken_rule(self, problem: TorchProblem, kernel: Kernel) -> Rejection | None:
        return None


def torch_kernel(body: str, top: str = "") -> Kernel:
    """A candidate whose forward is this text."""
    return PythonKernel.parse(TORCH_KERNEL.format(body=body, top=top))


OnGpu = Callable[..., contextlib.AbstractContextManager[LocalEvaluator]]
_TESTS = itertools.count()
FOLDER = Path(__file__).parent
SLOW = (
    "agent/first_kernels/test_from_inductor.py",
    "agent/first_kernels/test_recorded_code.py::test_recorded_code_becomes_a_file_of_plain_kernels",
    "agent/models/test_check.py::test_an_unknown_provider_says_how_to_reach_a_server_of_ones_own",
    "agent/models/test_check.py::test_the_command_reports_it_before_it_measures",
    "agent/prompt_optimization/test_gepa.py",
    "agent/test_conversation.py",
    "agent/test_first_step.py",
    "agent/test_rules.py",
    "agent/test_tilelang_cuda_rules.py",
    "agent/test_triton_rules.py",
    "agent/test_triton_stream_rules.py",
    "agent/test_triton_structure_rules.py",
    "benchmarks/",
    "cli/test_against.py::test_a_target_against_the_defaults",
    "cli/test_against.py::test_the_policy_chooses_the_reference_of_every_command",
    "cli/test_agent_compile.py",
    "cli/test_commands.py::test_a_kernel_that_is_no_faster_is_not_written",
    "cli/test_commands.py::test_a_kernelbench_checkout_serves_as_dataset",
    "cli/test_commands.py::test_interrupt_and_resume",
    "cli/test_commands.py::test_list_slow_remembers_and_feeds_a_batch",
    "cli/test_planted_key.py",
    "cli/test_traces.py::test_a_definition_is_optimized_into_a_solution",
    "cli/test_trust.py::test_a_dotenv_of_a_project_sends_no_key_elsewhere",
    "cli/test_trust.py::test_a_foreign_project_gets_no_key",
    "cli/test_tune_gemm.py::test_choices_for_an_architecture_that_is_not_here",
    "cli/test_tune_kernel.py::test_a_killed_search_goes_on_and_measures_nothing_twice",
    "cli/test_tune_kernel.py::test_what_was_found_is_kept_when_a_search_is_interrupted",
    "cli/test_tune_mlir.py::test_a_module_at_which_the_parser_crashes_is_one_line",
    "cli/test_tune_mlir.py::test_a_module_from_elsewhere_has_no_file_embedded",
    "cli/test_tune_mlir.py::test_a_schedule_that_is_no_faster_leaves_no_module",
    "cli/test_tune_mlir.py::test_three_products_and_a_convolution_are_scheduled_whole",
    "cli/test_tune_mlir.py::test_xgboost_and_a_run_that_goes_on",
    "cli/test_tune_replay.py::test_ctrl_c_ends_it_at_once",
    "cli/test_unproven.py::test_evaluate_says_so_unless_the_user_accepts_it",
    "cli/test_unproven.py::test_other_commands_say_so",
    "cli/test_usage.py::test_a_full_disk_is_one_line",
    "contracts/test_language.py",
    "corpus/functions/test_launches.py::test_a_tuned_launcher_is_patched_and_right",
    "corpus/functions/test_launches.py::test_local_blocks_of_tilelang_are_tuned_from_the_command_to_the_patch",
    "corpus/functions/test_putting_back.py",
    "corpus/functions/test_size_choices.py",
    "corpus/structures/test_attention.py",
    "corpus/structures/test_experts.py",
    "corpus/structures/test_pointwise.py",
    "corpus/structures/test_products.py",
    "corpus/structures/test_rows.py",
    "corpus/structures/test_scans.py",
    "corpus/structures/test_top_k.py",
    "corpus/structures/test_windows.py",
    "deploy/models/test_backend_training.py",
    "deploy/models/test_loop.py",
    "deploy/test_deploy.py::test_a_wheel_builds_and_installs",
    "deploy/test_deploy.py::test_the_tests_of_a_package_find_a_wrong_kernel",
    "deploy/test_deploy.py::test_the_tests_of_a_package_pass",
    "deploy/test_deploy.py::test_triton_kernels_of_two_sizes_serve_a_range",
    "deploy/test_deploy.py::test_what_only_tracing_shows_leaves_no_folder",
    "deploy/test_operators.py::test_compiled_code_of_another_package_of_the_name_is_not_run",
    "deploy/test_gradients.py",
    "deploy/test_tuned_products.py::test_products_of_a_sweep_serve_a_range_in_triton_s_interpreter",
    "corpus/test_attention.py",
    "corpus/test_attention_turns.py",
    "corpus/test_corpus.py",
    "corpus/test_gemm.py",
    "evaluators/compilation/",
    "evaluators/functions/test_start_errors.py",
    "evaluators/profiling/test_cross_compile.py::test_blackwells_products_are_tcgen05",
    "evaluators/profiling/test_cross_compile.py::test_what_does_not_compile_says_why_and_others_go_on",
    "evaluators/guards/test_torch_share.py::test_the_corpus_breaks_no_rule_while_it_runs",
    "evaluators/iree/test_compiler.py::test_a_compiler_that_never_stops_talking_is_ended",
    "evaluators/iree/test_containment.py",
    "evaluators/iree/test_evaluator.py::test_products_of_bf16_are_verified_and_timed",
    "evaluators/kernelbench/",
    "evaluators/pipeline/test_device_access.py::test_torchs_compiler_begins_before_others_have_to_wait",
    "evaluators/pipeline/test_processes.py",
    "evaluators/pipeline/test_references.py::test_reference_and_candidate_import_a_package_at_the_same_time",
    "evaluators/pipeline/test_sanitizer.py::test_a_call_that_is_not_made_is_not_clean",
    "evaluators/pipeline/test_sanitizer.py::test_a_tool_that_does_not_end_in_time_is_not_clean",
    "evaluators/pipeline/test_sanitizer.py::test_all_tools_make_the_call_and_find_nothing",
    "evaluators/pipeline/test_sanitizer.py::test_the_call_is_confined",
    "evaluators/pipeline/test_sanitizer.py::test_the_fastest_of_several_configs_is_looked_at",
    "evaluators/pipeline/test_sanitizer.py::test_the_next_best_wins_where_the_fastest_is_rejected",
    "evaluators/profiling/test_binary_stats.py::test_tilelangs_binaries_are_found_in_its_cache",
    "evaluators/profiling/test_ncu.py::test_the_kernel_is_called_until_it_is_compiled_and_once_more",
    "evaluators/reference/test_baselines.py::test_a_damaged_cache_is_compiled_anew",
    "evaluators/reference/test_baselines.py::test_a_problem_that_sets_the_switches_does_not_change_the_policy",
    "evaluators/reference/test_baselines.py::test_torch_compiles_and_is_timed_interleaved_with_eager",
    "evaluators/reference/test_baselines.py::test_what_is_compiled_ahead_is_neither_run_then_nor_compiled_again",
    "evaluators/reference/test_generated_codes.py",
    "evaluators/remote/test_ray.py",
    "evaluators/replay/test_tir_compile.py",
    "evaluators/sandbox/",
    "evaluators/test_faults.py",
    "evaluators/test_memory.py",
    "evaluators/test_not_measured.py",
    "evaluators/timing/test_threads.py",
    "evaluators/workers/test_hostile_answers.py",
    "evaluators/workers/test_hostile_workers.py",
    "evaluators/workers/test_servers.py::test_a_worker_of_a_server_that_replaced_another_has_the_languages_before_it_watches",
    "exploits/",
    "extensions/test_testing_page.py",
    "extensions/test_toy_suites.py",
    "faults/test_chaos.py",
    "faults/test_output.py::test_output_that_nobody_takes_is_no_traceback",
    "faults/test_table.py::test_surroundings",
    "mcp_server/test_session.py::test_a_cancelled_call_ends_its_processes",
    "mcp_server/test_session.py::test_a_problem_that_prints_does_not_mix_with_the_messages",
    "prompts/test_guides.py",
    "runtime/test_foreign_journals.py::test_no_model_sees_them_as_examples",
    "runtime/test_gemm_cache.py::test_a_fresh_process_takes_our_choice",
    "runtime/test_patched_package.py::test_a_patch_that_breaks_the_package_is_refused_with_the_reason",
    "runtime/test_verify_corpus.py::test_shipped_kernels_are_checked_too",
    "runtime/test_write_result.py",
    "tuners/gemm/test_sweep_processes.py",
    "tuners/test_catalogue.py::test_what_is_preloaded_is_all_that_a_search_imports",
    "tuners/test_convolutions.py",
    "tuners/test_hardware.py::test_shared_memory_is_what_triton_takes",
    "tuners/test_quality.py",
    "test_docs.py",
    "test_notebooks.py",
)
"""Folders, files and single tests that `make test` leaves to `make test-all`: interpreters over whole corpora, all
cheats, what the documentation shows, torch's compiler, several evaluations in full, what waits for a limit, and what
starts many processes that import torch anew. Each command keeps a run from end to end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--passed", metavar="FILE", help="leave out the tests that FILE names, and add those that pass")


def pytest_configure(config: pytest.Config) -> None:
    """One folder for all workers of a run and the commands that they call."""
    gc.disable()  # imports make many objects that stay: see `pytest_collection_finish`
    config.pluginmanager.register(runs.LongFirst())
    if config.option.passed:
        config.pluginmanager.register(runs.Passed(config))
    if OWN_FOLDER is not None:
        config.add_cleanup(lambda: shutil.rmtree(OWN_FOLDER, ignore_errors=True))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Importing what is deselected would take longer than many of the tests that are left."""
    name = collection_path.relative_to(FOLDER).as_posix() + ("/" if collection_path.is_dir() else "")
    needless = {"not slow": name.startswith(SLOW)} | {gpu: runs.has_no_gpu_test(collection_path) for gpu in runs.GPU}
    return needless.get(config.option.markexpr) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What `SLOW` names is marked; GPU tests are left out, and say so, where no CUDA device is."""
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(SLOW):
            item.add_marker("slow")
    if cuda_devices():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))


def pytest_collection_finish() -> None:
    """What was imported and collected stays until the end: looking through it for garbage takes seconds.

    So does looking through syntax trees, of which rules make hundreds of thousands of nodes, every 700 objects.
    """
    gc.freeze()
    gc.set_threshold(400_000, 20, 20)
    gc.enable()


def pytest_unconfigure() -> None:
    """Triton counts what is left of it at the end of a process, and prints that."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def scale_problem() -> TorchProblem:
    return scale.scale_problem()


@pytest.fixture(scope="session")
def scale_kernel() -> Kernel:
    return scale.scale_kernel()


@pytest.fixture(scope="session")
def evaluator() -> Iterator[LocalEvaluator]:
    """One warm server for all tests."""
    with Unguarded(settings=FAST) as shared:
        yield shared


@pytest.fixture(scope="session")
def proving() -> Iterator[LocalEvaluator]:
    """One that makes launch plans."""
    with Unguarded(settings=PROVING) as shared:
        yield shared


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(cache))
    # What one test's run learned must not change what another's tries first.
    archive = tmp_path_factory.getbasetemp() / "archives" / f"{next(_TESTS)}.jsonl"
    monkeypatch.setenv("KERNELWRIGHT_ARCHIVE", str(archive))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(archive.with_suffix(".config")))
    if not cache.exists():  # the shipped examples are embedded once in a run: that takes seconds
        cache.mkdir()
        (cache / "examples").symlink_to(surroundings.example_vectors())
    # No test talks to a model of the person who runs it, or looks for prices on the network.
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")


@pytest.fixture
def kernel_file(tmp_path: Path) -> Path:
    """The scale kernel and its problem, as a user would have them."""
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "999_Scale.py").write_text(SCALE_PROBLEM)
    path = tmp_path / "1_999.py"
    path.write_text(SCALE_KERNEL)
    return path


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes, where this user may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("may not mount a file system: " + mounted.stderr.decode().strip())
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
