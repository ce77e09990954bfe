"""What a first look leaves out, and what it keeps."""

from __future__ import annotations

from kernelwright.commands.evaluate import Options as EvaluateOptions
from kernelwright.commands.optimize import Options as OptimizeOptions
from kernelwright.commands.tune.kernel import Options as TuneOptions
from kernelwright.evaluators.settings import QUICK_S, Sampling, SearchSettings, Settings
from kernelwright.runtime.evaluators import Evaluators
from kernelwright.runtime.options.trust import TimingOptions, settings_of


def test_a_quick_sampling_is_never_longer_than_the_one_it_is_made_of() -> None:
    quick = Sampling().quick()
    assert (quick.seconds, quick.quiet_timeout_s, quick.heeds_load) == (QUICK_S, 0.0, False)
    assert Sampling(seconds=0.03, min_samples=3, max_samples=20).quick().seconds == 0.03
    assert quick.quick() == quick


def test_quick_settings_check_as_much_as_others() -> None:
    settings = Settings(search=SearchSettings())
    quick = settings.quick()
    assert quick.checks == settings.checks and quick.second_workload and quick.allow_torch is settings.allow_torch
    assert not quick.replay_on_cpu and not quick.require_replay
    assert quick.search is not None and not quick.search.sampling.heeds_load
    assert quick.search.prune_factor == SearchSettings().prune_factor


def test_the_search_of_a_quick_run_is_quick_too() -> None:
    search = SearchSettings()
    assert Settings().searching(search).search == search
    found = Settings().quick().searching(search).search
    assert found is not None and found.sampling == search.sampling.quick()


def test_commands_are_quick_where_they_are_asked_to_be() -> None:
    for quick in (False, True):
        found = settings_of(EvaluateOptions(kernel="1_1", quick=quick), Settings())
        assert (found.require_replay, found.sampling.heeds_load) == (not quick, not quick)
    with Evaluators("cpu", 1, settings_of(TimingOptions(quick=True), Settings())) as evaluators:
        (evaluator,) = evaluators.pool
        searcher = evaluators.searcher(evaluator)
        assert not searcher.first.settings.search.sampling.heeds_load  # type: ignore[attr-defined]


def test_the_sanitizer_is_for_last_checks_of_a_run_and_where_evaluate_is_asked_for_it() -> None:
    assert not settings_of(EvaluateOptions(kernel="1_1"), Settings()).sanitize
    assert settings_of(EvaluateOptions(kernel="1_1", sanitize=True), Settings()).sanitize
    assert not settings_of(EvaluateOptions(kernel="1_1", sanitize=True, quick=True), Settings()).sanitize
    assert settings_of(TuneOptions(kernel="1_1"), Settings()).sanitize
    for asked in (True, False):
        with Evaluators("cpu", 1, settings_of(OptimizeOptions(kernel="1_1", sanitize=asked), Settings())) as evaluators:
            (evaluator,) = evaluators.pool
            assert not evaluator.first.settings.sanitize  # type: ignore[attr-defined]
            assert not evaluators.searcher(evaluator).first.settings.sanitize  # type: ignore[attr-defined]
            assert evaluators.judge((), evaluator).first.settings.sanitize is asked  # type: ignore[attr-defined]
