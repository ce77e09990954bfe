"""`tune attention` without a GPU: the whole search, its folder, and what it refuses."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from pathlib import Path

import pytest
from kernelwright import AttentionConfig, KernelwrightError, ScheduleOptimizer, tune_attention
from kernelwright.core import Config, JournalError, OptionError, PythonKernel
from kernelwright.core.journal import read_journal
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.runtime.attention_result import ScheduleResult
from kernelwright.tuners.schedule.attention import Rates
from kernelwright.tuners.schedule.bounds import interval_bound
from kernelwright.tuners.schedule.files import load_schedule

SMALL = {"seq_len_q": 300, "num_heads": 8, "num_kv_heads": 2, "simulate": True}


def test_a_search_leaves_the_folder_and_resumes(tmp_path: Path) -> None:
    config = AttentionConfig(**SMALL, trials=12, plot=True, results=tmp_path, seq_len_k=2000)
    optimizer = ScheduleOptimizer(config)
    result = optimizer.optimize()
    assert result.best is not None and result.iterations == 12 and result.simulated
    assert result.improvement_history == sorted(result.improvement_history, reverse=True)
    assert result.latency == result.improvement_history[-1] < result.improvement_history[0]

    folder = result.folder.path
    last = len(result.improvement_history) - 1
    for name in ("tuning.log", "tuning_progress.csv", "tuning_history.json", "schedules.png", "convergence.png"):
        assert (folder / name).stat().st_size > 0
    final = json.loads((folder / "final_results.json").read_text())
    assert final["simulated"] and final["schedule"] == result.schedule and final["iterations"] == 12
    first = 1e6 * result.improvement_history[0]
    assert first == pytest.approx(final["first_latency_us"]) and first > final["best_latency_us"]
    best = Config({name: result.best.config[name] for name in optimizer.space.names})
    assert load_schedule(folder / "schedules" / f"schedule_{last:04d}.txt", optimizer.space) == best
    trace = json.loads((folder / "traces" / f"trace_{last:04d}.json").read_text())
    assert trace["otherData"] == {"simulated": True}
    assert {event["name"] for event in trace["traceEvents"]} == set(optimizer.space.operations)
    written = PythonKernel.parse((folder / "attention_tuned.py").read_text())
    assert {name: written.config[name] for name in best} == best

    problem = find_problem(str(folder / "attention_problem.py")).read()
    assert problem.integers.items() >= {"seq_len_q": 300, "seq_len_k": 2000, "kv_heads": 2}.items()
    assert find_kernel(str(folder / "attention_tuned.py"), "tilelang").read().config == written.config

    before = (folder / "tuning_history.json").read_text()
    again = ScheduleOptimizer(AttentionConfig(**SMALL, trials=15, resume=True, results=tmp_path, seq_len_k=2000))
    resumed = again.optimize()
    assert resumed.found.progress.recalled == 12 and resumed.iterations == 15
    history = json.loads((folder / "tuning_history.json").read_text())
    assert history[:12] == json.loads(before)
    seen = [again.space.code(e.config) for e in resumed.found.evaluations]
    assert len(set(seen)) == 15


@pytest.mark.parametrize("tuner", ["random_moves", "hill_climb"])
def test_other_tuners_and_the_seeds_function(tmp_path: Path, tuner: str) -> None:
    schedule, latency = tune_attention(AttentionConfig(**SMALL, causal=True, tuner=tuner, trials=4, results=tmp_path))
    assert set(schedule) == {"COPY_K", "QK", "ROW_MAX", "SCALE", "EXP", "ROW_SUM", "CAST", "RESCALE", "COPY_V", "PV"}
    assert 0 < latency < 1


def test_verbose_logs_each_trial(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "kernelwright")
    for verbose, lines in ((True, 3), (False, 0)):
        caplog.clear()
        result = ScheduleOptimizer(AttentionConfig(**SMALL, results=tmp_path)).optimize(3, verbose=verbose)
        logged = [record.getMessage() for record in caplog.records]
        assert len(logged) == lines and result.iterations == 3
        assert not verbose or logged[-1].startswith("trial 3, ok: 0.")
    assert capsys.readouterr().out == ""


def test_it_starts_from_a_file_or_an_interval(tmp_path: Path) -> None:
    first = ScheduleOptimizer(AttentionConfig(**SMALL, trials=1, interval=50, results=tmp_path)).optimize()
    assert first.best is not None and first.best.config["INTERVAL"] == 50
    path = first.folder.path / "schedules" / "schedule_0000.json"
    kept = path.rename(tmp_path / "mine.json")
    second = ScheduleOptimizer(AttentionConfig(**SMALL, trials=1, schedule=kept, results=tmp_path)).optimize()
    assert second.best is not None and second.best.config == first.best.config
    kernels = [record.kind for record in read_journal(second.folder.path / "journal.jsonl")]
    assert kernels == ["run", "trial", "trial", "trial"]


RATES = asdict(Rates(vector=256.0))


def test_times_at_other_rates_are_not_compared(tmp_path: Path) -> None:
    (tmp_path / "rates.json").write_text(json.dumps({"rates": RATES}))
    ScheduleOptimizer(AttentionConfig(**SMALL, trials=1, results=tmp_path)).optimize()
    other = AttentionConfig(**SMALL, trials=2, results=tmp_path, resume=True, rates=tmp_path / "rates.json")
    with pytest.raises(JournalError, match="is of another run: device changed; leave `resume` out"):
        ScheduleOptimizer(other).optimize()


def test_a_search_that_starts_again_leaves_nothing_of_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = AttentionConfig(**SMALL, trials=1, plot=True, results=tmp_path)
    first = ScheduleOptimizer(config).optimize()
    folder = first.folder.path
    assert not first.faster and not (folder / "attention_tuned.py").exists(), "it is the kernel's own schedule"
    monkeypatch.setattr(ScheduleResult, "faster", property(lambda result: result.best is not None))
    ScheduleOptimizer(config).optimize()
    assert (folder / "attention_tuned.py").exists() and (folder / "schedules.png").exists()
    monkeypatch.setattr(ScheduleOptimizer, "loop", lambda *_: "nothing can be built")
    result = ScheduleOptimizer(config).optimize()
    assert result.best is None and result.latency == float("inf") and result.schedule == {}
    left = {path.name for path in folder.rglob("*") if path.is_file()}
    assert not {name for name in left if name.startswith(("attention_", "schedule"))}
    assert json.loads((folder / "final_results.json").read_text())["failed"] == 1
    with pytest.raises(OptionError, match=r"no schedule was correct: simulated: nothing can be built; see "):
        tune_attention(config)


BOUND = interval_bound(
    (space := ScheduleOptimizer(AttentionConfig(**SMALL)).space).graph(space.some_tiles)  # type: ignore[arg-type]
)
REFUSED = [
    ({"head_dim": 40}, "`head_dim` 40 is not a size that the matrix instructions have; use a multiple of 16 up to 256"),
    ({"head_dim_kv": 512}, "`head_dim_kv` 512 is not a size"),
    ({"num_kv_heads": 3}, "8 heads cannot share 3 `num_kv_heads` evenly"),
    ({"seq_len_q": 0}, "`seq_len_q` must be at least 1, not 0"),
    ({"interval": 2}, "an interval of 2 is impossible: the resources of one iteration need"),
    ({"interval": BOUND}, "was found that can be built; there is one of 3"),
    ({"interval": BOUND, "schedule": "s.txt"}, "`schedule` has an interval of its own; leave `interval` out"),
    ({"schedule": "nowhere.txt"}, "cannot read nowhere.txt: No such file or directory"),
    ({"tuner": "genetic"}, "there is no tuner 'genetic'"),
    ({"dtype": "float32"}, "`dtype` 'float32'; use float16, bfloat16"),
    ({"trials": 0}, "`trials` must be at least 1"),
    ({"simulate": False, "device": "cpu"}, "schedules are measured on a GPU, and there is none; use `simulate`"),
]


@pytest.mark.parametrize(("options", "says"), REFUSED, ids=[str(options) for options, _ in REFUSED])
def test_bad_input(tmp_path: Path, options: dict[str, object], says: str) -> None:
    with pytest.raises(KernelwrightError) as refused:
        ScheduleOptimizer(AttentionConfig(**{**SMALL, "results": tmp_path, **options})).optimize()
    assert says in str(refused.value)
    assert not list(tmp_path.iterdir())
