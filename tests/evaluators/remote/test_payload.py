"""What travels to another machine, and what comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import Config, DeviceError, Evaluation, Kernel, Problem, ProblemError, Status, TorchProblem
from kernelwright.core import errors as user_errors
from kernelwright.core.user_package import UserModule, UserPackage
from kernelwright.evaluators.remote.payload import Payload, What, failure, outlines, read_evaluations, read_profile
from kernelwright.evaluators.remote.worker_host import WorkerHost
from kernelwright.evaluators.settings import AllowTorch, Limits, SearchSettings, Settings
from pydantic import ValidationError

from ...conftest import FAST, SCALE_PROBLEM
from ...fakes import evaluation

SETTINGS = Settings(
    checks=5,
    limits=Limits(compile_s=7.5),
    allow_torch=AllowTorch.NONE,
    search=SearchSettings(compilers=3, prune_factor=1.5),
)


@pytest.fixture(scope="module")
def host() -> Iterator[WorkerHost]:
    shared = WorkerHost("cpu")
    yield shared
    shared.close()


def there_and_back(payload: Payload) -> Payload:
    return Payload.model_validate_json(payload.model_dump_json())


def test_a_payload_is_the_same_on_the_other_machine(scale_problem: Problem, scale_kernel: Kernel) -> None:
    sizes = {"rows": 3, "pads": (1, (2, 3)), "ratio": 0.1, "name": "a'b", "flag": True}
    problem = replace(scale_problem, workload="mine", sizes=sizes, path="/home/somebody/1_999.py")
    configs = [Config({"BLOCK": 8, "SCALE": 1.0, "KIND": "a", "FLAG": True})]
    got = there_and_back(Payload.asking(What.EVALUATE, problem, SETTINGS, scale_kernel, configs))
    assert got.kernel is not None
    assert got.problem.problem() == replace(problem, path="")
    assert got.kernel.kernel() == scale_kernel
    assert got.kernel.kernel().digest == scale_kernel.digest
    assert got.settings == SETTINGS
    assert [type(value) for value in got.configs[0].values()] == [int, float, str, bool]


def test_nothing_of_this_machine_travels(
    scale_problem: Problem, scale_kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-something")
    problem = replace(scale_problem, path="/home/somebody/1_999.py")
    text = Payload.asking(What.COMPARE, problem, SETTINGS, scale_kernel, [Config()]).model_dump_json()
    assert "sk-something" not in text and "/home/somebody" not in text


def test_a_payload_of_another_version_is_refused(scale_problem: Problem) -> None:
    text = json.loads(Payload.asking(What.PROFILE, scale_problem, SETTINGS).model_dump_json())
    with pytest.raises(ValidationError):
        Payload.model_validate({**text, "version": 2})


def test_a_worker_host_answers_as_the_local_evaluator_does(
    host: WorkerHost, scale_problem: Problem, scale_kernel: Kernel
) -> None:
    configs = [Config({"BLOCK": block}) for block in (4, 0)]
    payload = there_and_back(Payload.asking(What.EVALUATE, scale_problem, FAST, scale_kernel, configs))
    right, wrong = read_evaluations(json.loads(json.dumps(host.run(payload))))
    assert right.ok and right.speedup is not None and right.correctness is not None
    assert right.correctness.checks == FAST.checks
    assert right.kernel_digest == scale_kernel.digest and right.config == {"BLOCK": 4}
    assert right.environment["torch"]
    assert not wrong.ok and wrong.message
    compared = read_evaluations(host.run(payload.model_copy(update={"what": What.COMPARE})))
    assert [evaluation.status for evaluation in compared] == [right.status, wrong.status]
    contest = Payload.asking(What.CONTEST, scale_problem, FAST, kernels=[scale_kernel.bind({"BLOCK": 4}), scale_kernel])
    first, second = read_evaluations(host.run(there_and_back(contest)))
    assert first.ok and second.ok and first.reference == second.reference is not None
    assert first.kernel_digest != second.kernel_digest == scale_kernel.digest


def test_a_worker_host_keeps_its_server_between_payloads_of_the_same_settings(
    host: WorkerHost, scale_problem: Problem, scale_kernel: Kernel
) -> None:
    payload = Payload.asking(What.EVALUATE, scale_problem, FAST, scale_kernel, [Config({"BLOCK": 4})])
    host.run(payload)
    before = [evaluator.processes.server.pid for evaluator in host._evaluators.values()]
    host.run(there_and_back(payload))
    assert [evaluator.processes.server.pid for evaluator in host._evaluators.values()] == before
    assert len(before) == 1


def test_a_profile_comes_from_the_other_machine(host: WorkerHost, scale_problem: Problem) -> None:
    profile = read_profile(host.run(there_and_back(Payload.asking(What.PROFILE, scale_problem, FAST))))
    assert profile.flops > 0 and profile.ceilings.cores > 0


def test_a_users_mistake_is_raised_here_as_what_it_is_there(
    host: WorkerHost, scale_problem: Problem, scale_kernel: Kernel
) -> None:
    broken = replace(scale_problem, source=SCALE_PROBLEM.replace("return x * self.weight", "raise ValueError('no')"))
    payload = Payload.asking(What.EVALUATE, broken, FAST, scale_kernel, [Config({"BLOCK": 4})])
    responses = host.run(payload)
    assert responses[-1]["error"] == "ProblemError"
    with pytest.raises(ProblemError, match="ValueError: no"):
        read_evaluations(json.loads(json.dumps(responses)))


@pytest.mark.parametrize("kind", [*user_errors.KernelwrightError.__subclasses__()], ids=lambda kind: kind.__name__)
def test_every_mistake_travels(kind: type[user_errors.KernelwrightError]) -> None:
    with pytest.raises(kind, match=r"^as told$"):
        read_evaluations([failure(kind("as told"))])


@pytest.mark.parametrize("name", ["SystemExit", "annotations", "Unheard"])
def test_what_is_no_mistake_of_ours_is_the_workers(name: str) -> None:
    with pytest.raises(DeviceError, match="as told"):
        read_evaluations([{"error": name, "message": "as told"}])


def test_a_search_sends_outlines_of_what_it_knows(scale_kernel: Kernel) -> None:
    full = evaluation(scale_kernel, Config({"BLOCK": 4}), 3.0).model_copy(
        update={"code_digest": "abc", "log": "long", "environment": {"device": "d"}}
    )
    failed = Evaluation(
        status=Status.COMPILE_ERROR, kernel_digest="k", message="no", log="long", code_digest="def", config={"BLOCK": 1}
    )
    twin = full.model_copy(update={"duplicate_of": {"BLOCK": 4}, "config": {"BLOCK": 5}})
    without = full.model_copy(update={"code_digest": None})
    first, second = outlines([full, failed, twin, without])
    assert (first.latency_ms, first.code_digest, first.log, first.environment) == (3.0, "abc", "", {})
    assert (second.status, second.code_digest, second.log) == (Status.COMPILE_ERROR, "def", "")


def test_a_function_needs_its_package_at_the_same_place(
    scale_problem: Problem, scale_kernel: Kernel, tmp_path: Path
) -> None:
    (tmp_path / "ops.py").write_text("X = 1\n")
    module = UserModule("ops", tmp_path / "ops.py", "X = 1\n")
    package = UserPackage({"ops": tmp_path / "ops.py"}, (module,), "call")
    problem = replace(TorchProblem.of(scale_problem), package=package)
    got = there_and_back(Payload.asking(What.EVALUATE, problem, SETTINGS, scale_kernel, [Config()]))
    assert got.problem.problem().package == package
    patched = replace(problem, package=replace(package, modules=(replace(module, text="X = 2\n"),), patched=True))
    (tmp_path / "ops.py").write_text("X = 3\n")
    with pytest.raises(ProblemError, match=r"ops\.py on the machine that evaluates it is not the file of this machine"):
        got.problem.problem()
    again = there_and_back(Payload.asking(What.EVALUATE, patched, SETTINGS, scale_kernel, [Config()]))
    assert again.problem.problem().package == patched.package
    (tmp_path / "ops.py").unlink()
    with pytest.raises(
        ProblemError, match=r"ops\.py is not on the machine that evaluates it; install the package there"
    ):
        got.problem.problem()
