"""A Ray cluster of several nodes on this machine, one of which is killed while it works."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import (
    Budget,
    Config,
    DeviceError,
    Journal,
    Kernel,
    ProblemError,
    TorchProblem,
    Trial,
)
from kernelwright.core.events import Event, TrialDone
from kernelwright.corpus.functions.patched import patched
from kernelwright.evaluators.remote.evaluator import RemoteEvaluator
from kernelwright.evaluators.remote.ray_cluster import RayCluster, check_versions
from kernelwright.evaluators.remote.ray_connection import connect
from kernelwright.evaluators.remote.worker_host import versions
from kernelwright.evaluators.settings import Sampling, SearchSettings
from kernelwright.tuners import catalogue
from kernelwright.tuners.search import FINAL, SEARCHED, Search

from ...conftest import FAST, SCALE_PROBLEM
from ...surroundings import WARM_SERVER
from ...user_packages import LINEAR

cluster_utils = pytest.importorskip("ray.cluster_utils")

QUICK = Sampling(seconds=0.03, min_samples=5, max_samples=20, chunk_s=0.002, heeds_load=False)
SEARCH = replace(FAST, checks=1, sampling=QUICK, search=SearchSettings(compilers=1, window=2, sampling=QUICK))
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A head that evaluates nothing, and a node with a processor; tests add one more, and kill one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(WARM_SERVER)  # a node that is killed would take it along, and the servers of others
        # The head has no processors and is the only one that cannot be lost.
        cluster = cluster_utils.Cluster(
            initialize_head=True, head_node_args={**NODE, "num_cpus": 0, "include_dashboard": False}
        )
        cluster.add_node(**NODE)
        yield cluster
        cluster.shutdown()


@pytest.fixture(scope="module")
def workers(nodes: Any) -> RayCluster:
    return RayCluster(nodes.address, "cpu", SEARCH, wait_s=60)


@pytest.fixture(scope="module")
def evaluator(workers: RayCluster) -> Iterator[RemoteEvaluator]:
    with RemoteEvaluator(workers, SEARCH) as shared:
        yield shared


class _Killer:
    """Watches a search, and ends a node without warning, at work, as soon as it has seen two trials."""

    def __init__(self, nodes: Any, cluster: RayCluster) -> None:
        self._nodes = nodes
        self._cluster = cluster
        self.killed: list[str] = []

    def __call__(self, event: Event) -> None:
        if not isinstance(event, TrialDone) or event.number < 2 or self.killed:
            return
        self.killed = [slot.place.node for slot in self._cluster._slots if slot.busy][:1]
        for node in [node for node in self._nodes.list_all_nodes() if node.node_id in self.killed]:
            self._nodes.remove_node(node, allow_graceful=False)


def await_workers(cluster: RayCluster, count: int) -> None:
    deadline = time.monotonic() + 120  # on a busy machine a node is late
    while cluster.count() != count:
        assert time.monotonic() < deadline
        time.sleep(0.2)
        with cluster._lock:
            cluster._look()


def test_a_node_that_joins_is_used(nodes: Any, workers: RayCluster) -> None:
    assert workers.count() == 1
    nodes.add_node(**NODE)
    await_workers(workers, 2)


def test_a_search_and_its_early_end(
    evaluator: RemoteEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    drawn: list[Config] = []

    def source() -> Iterator[Config]:
        for block in range(1, 60):
            drawn.append(Config({"BLOCK": block}))
            yield drawn[-1]

    evaluations = evaluator.evaluate(scale_problem, scale_kernel, source())
    seen = [next(evaluations) for _ in range(3)]
    began = time.monotonic()
    evaluations.close()
    assert time.monotonic() - began < 20
    assert [evaluation.config["BLOCK"] for evaluation in seen] == [1, 2, 3]
    assert all(evaluation.ok and evaluation.reference is None and evaluation.code_digest for evaluation in seen)
    assert len(drawn) <= 3 + 2 * 2
    (twin,) = evaluator.evaluate(scale_problem, scale_kernel, [Config({"BLOCK": 1})], known=seen)
    assert twin.duplicate_of == {"BLOCK": 1}
    assert twin.measurement == seen[0].measurement and twin.environment == seen[0].environment


def test_a_function_and_its_patch_are_judged_where_the_package_is(evaluator: RemoteEvaluator, tmp_path: Path) -> None:
    """Patched files travel with the request; a package that is not there is named."""
    function = LINEAR.translated(LINEAR.copied(tmp_path))
    (module,) = [item for item in function.package.modules if item.name == "linear"]
    changed = module.text.replace("T.max(total[j], 0.0)", "T.max(0.0, total[j])")
    problem, kernel = patched(function, function.problem.at("few"), {module.path: changed})
    for asked, wanted in ((function.problem.at("few"), function.kernel), (problem, kernel)):
        (found,) = evaluator.evaluate(asked, wanted, [Config()])
        assert found.ok, found.message
    module.path.rename(tmp_path / "gone.py")
    with pytest.raises(ProblemError, match=r"linear\.py is not on the machine that evaluates it"):
        list(evaluator.evaluate(function.problem.at("few"), function.kernel, [Config()]))


def test_a_mistake_of_the_user_comes_back_as_one(evaluator: RemoteEvaluator, scale_kernel: Kernel) -> None:
    source = SCALE_PROBLEM.replace("return x * self.weight", "raise ValueError('no')")
    problem = TorchProblem(id="level1/1_998", name="998_Broken", source=source)
    with pytest.raises(ProblemError, match="ValueError: no"):
        list(evaluator.evaluate(problem, scale_kernel, [Config({"BLOCK": 4})]))


def test_a_cluster_without_gpus_says_so(nodes: Any, evaluator: RemoteEvaluator) -> None:
    with pytest.raises(DeviceError, match="has no GPU; use `device` cpu"):
        RayCluster(nodes.address, "cuda")


def test_a_node_that_is_killed_costs_no_trial_and_none_is_there_twice(
    nodes: Any,
    workers: RayCluster,
    evaluator: RemoteEvaluator,
    scale_problem: TorchProblem,
    scale_kernel: Kernel,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    space = scale_kernel.space({"BLOCK": [2, 4, 8, 16, 32]}, [])
    if workers.count() < 2:
        nodes.add_node(**NODE)
    await_workers(workers, 2)
    # A node that has to start first would leave all trials to the other one, and be at work at none.
    list(evaluator.evaluate(scale_problem, scale_kernel, [Config({"BLOCK": 1}), Config({"BLOCK": 64})]))
    killer = _Killer(nodes, workers)
    with Journal(tmp_path / "journal.jsonl") as journal:
        tuner = catalogue.create_tuner("grid", space)
        found = Search(scale_problem, scale_kernel, space, tuner, evaluator, journal, Budget(), killer).run()
        trials = list(journal.of(Trial))
    assert killer.killed and f"the worker on node {killer.killed[0][:8]} was lost" in caplog.text
    searched = [trial.evaluation for trial in trials if trial.origin == SEARCHED]
    assert [evaluation.config["BLOCK"] for evaluation in searched] == [2, 4, 8, 16, 32]
    assert all(evaluation.latency_ms for evaluation in searched), [evaluation.message for evaluation in searched]
    finals = [trial.evaluation for trial in trials if trial.origin == FINAL]
    assert len(finals) == len(found.finals) >= 2
    assert all(evaluation.speedup for evaluation in finals)
    await_workers(workers, 1)
    # Ray's messages about the node must not appear where a command prints its result.
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("what", ["version", "source"])
def test_a_node_with_another_kernelwright_is_refused(what: str) -> None:
    check_versions(versions())
    with pytest.raises(DeviceError, match=rf"has another {what} of kernelwright \(9\.9\) than this machine"):
        check_versions({**versions(), what: "9.9"})


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1:1", "cannot reach the Ray cluster: 127.0.0.1:1: Connection refused"),
        ("ray://127.0.0.1:1", "cannot reach the Ray cluster: 127.0.0.1:1: Connection refused"),
        (None, "^no Ray cluster runs on this machine; start one with 'ray start --head', or .* `ray_address`$"),
        ("nonsense", "cannot join the Ray cluster at nonsense: .*`ray_address`"),
    ],
)
def test_a_cluster_that_is_not_there(address: str | None, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(DeviceError, match=words) as raised:
        connect(address)
    assert "\n" not in str(raised.value)
