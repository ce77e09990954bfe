"""Modal's real client against a local server: what is sent, what comes back, what every failure comes to."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kernelwright.core import Config, DeviceError, Evaluation, Kernel, KernelwrightError, Problem, Status
from kernelwright.evaluators.remote.evaluator import RemoteEvaluator
from kernelwright.evaluators.remote.modal_app import PACKAGE_FILES, PACKAGE_FOLDERS, Resources, build
from kernelwright.evaluators.remote.modal_evaluator import ModalContainers, explained
from kernelwright.evaluators.remote.payload import RESPONSES, Payload, What, read_evaluations
from kernelwright.evaluators.remote.workers import PayloadTimeoutError, WorkerLostError

from ...conftest import FAST
from ...fakes import evaluation

modal = pytest.importorskip("modal")

from modal_proto import api_pb2 as pb  # noqa: E402

from .modal_server import GRPCError, ModalServer, failing, serving  # noqa: E402
from .modal_server import Status as Code  # noqa: E402

Result = pb.GenericResult


def answering(kernel: Kernel) -> Any:
    def run(text: str) -> str:
        payload = Payload.model_validate_json(text)
        found = [evaluation(kernel, Config(config), 2.0) for config in payload.configs]
        return RESPONSES.dump_json(
            [{"evaluation": evaluation.model_dump(mode="json")} for evaluation in found]
        ).decode()

    return run


@pytest.fixture
def server(scale_kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModalServer]:
    with serving(ModalServer(answering(scale_kernel))) as running:
        monkeypatch.setenv("MODAL_TOKEN_ID", "ak-1")
        monkeypatch.setenv("MODAL_TOKEN_SECRET", "as-1")
        monkeypatch.setenv("MODAL_SERVER_URL", running.url)
        modal.client._Client._set_env_client(None)
        yield running
        modal.client._Client._set_env_client(None)


def modal_evaluator(resources: Resources | None = None) -> RemoteEvaluator:
    return RemoteEvaluator(ModalContainers(resources or Resources(), FAST), FAST)


def evaluate(
    problem: Problem, kernel: Kernel, blocks: list[int], resources: Resources | None = None
) -> list[Evaluation]:
    with modal_evaluator(resources) as evaluator:
        return list(evaluator.evaluate(problem, kernel, [Config({"BLOCK": block}) for block in blocks]))


def test_what_is_asked_of_modal(
    server: ModalServer, scale_problem: Problem, scale_kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-something")
    seen = evaluate(scale_problem, scale_kernel, [4, 8, 16, 1], Resources(gpu="H100", containers=2))
    assert [evaluation.config for evaluation in seen] == [{"BLOCK": 4}, {"BLOCK": 8}, {"BLOCK": 16}, {"BLOCK": 1}]
    assert all(evaluation.ok for evaluation in seen)
    (function,) = server.functions
    assert function.resources.gpu_config.gpu_type == "H100!"
    assert function.timeout_secs >= 600
    assert function.retry_policy.retries == 2
    assert function.warm_pool_size == 0
    assert function.autoscaler_settings.max_containers == 2
    assert function.autoscaler_settings.scaledown_window == 120
    assert function.untrusted and function.block_network
    assert [mount.mount_path for mount in function.volume_mounts] == ["/cache"]
    assert not function.secret_ids
    commands = "\n".join(line for image in server.images for line in image.dockerfile_commands)
    assert "FROM nvidia/cuda:13" in commands and "g++" in commands
    assert "torch==" in commands and "tilelang==" in commands and "+cpu" not in commands
    assert "sk-something" not in commands + "".join(server.payloads) + repr(server.metadata)
    ours = [name for name in server.mounted if name.startswith("/root/")]
    assert "/root/kernelwright/evaluators/workers/fork_server.py" in ours
    assert {name.split("/")[3] for name in ours} == {*PACKAGE_FILES, *PACKAGE_FOLDERS}
    assert not [name for name in ours if "__pycache__" in name]
    assert server.rpcs[-1] == "AppClientDisconnect"


def test_the_remote_method_answers_as_a_local_evaluator(scale_problem: Problem, scale_kernel: Kernel) -> None:
    _, evaluations = build(Resources(gpu=None), 600)
    payload = Payload.asking(What.EVALUATE, scale_problem, FAST, scale_kernel, [Config({"BLOCK": 4})])
    container = evaluations()
    with pytest.warns(UserWarning, match="executing locally"):
        text = container.run.local(payload.model_dump_json())
    (seen,) = read_evaluations(RESPONSES.validate_json(text))
    assert seen.ok and seen.speedup is not None and seen.kernel_digest == scale_kernel.digest
    assert seen.environment["torch"]
    container._cached_user_cls_instance().host.close()


@pytest.mark.parametrize(
    ("outcomes", "status", "message"),
    [
        ([failing(Result.GENERIC_STATUS_INTERNAL_FAILURE, "preempted")] * 2, Status.OK, ""),
        (
            [failing(Result.GENERIC_STATUS_INTERNAL_FAILURE, "preempted")] * 3,
            Status.CRASHED,
            "the container was lost: preempted, the last of 3 that had it",
        ),
        (
            [failing(Result.GENERIC_STATUS_FAILURE, "Container ran out of memory.\nmore")] * 3,
            Status.CRASHED,
            "the container was lost: Container ran out of memory, the last of 3 that had it",
        ),
        (
            [failing(Result.GENERIC_STATUS_TERMINATED, "terminated")] * 3,
            Status.CRASHED,
            "the container was lost: terminated, the last of 3 that had it",
        ),
        ([failing(Result.GENERIC_STATUS_TIMEOUT)], Status.TIMEOUT, "stopped by Modal after 780 s (evaluating)"),
    ],
    ids=["preempted twice", "preempted always", "out of memory", "terminated", "timeout"],
)
def test_what_a_container_comes_to(
    server: ModalServer, scale_problem: Problem, scale_kernel: Kernel, outcomes: Any, status: Status, message: str
) -> None:
    server.outcomes = list(outcomes)
    (seen,) = evaluate(scale_problem, scale_kernel, [4])
    assert (seen.status, seen.message) == (status, message)
    assert seen.config == {"BLOCK": 4} and seen.kernel_digest == scale_kernel.digest


@pytest.mark.parametrize(
    ("rpc", "code", "words"),
    [
        ("AppCreate", Code.UNAUTHENTICATED, "Modal refuses the token: as told; run 'modal token new'"),
        ("AppCreate", Code.PERMISSION_DENIED, "Modal: as told"),
        ("FunctionCreate", Code.INVALID_ARGUMENT, "Modal: as told"),
        ("AppPublish", Code.INTERNAL, "Modal: the container was lost: as told"),
        ("FunctionMap", Code.FAILED_PRECONDITION, "Modal: as told"),
    ],
)
def test_what_modal_refuses(
    server: ModalServer, scale_problem: Problem, scale_kernel: Kernel, rpc: str, code: Code, words: str
) -> None:
    server.refuse = {rpc: GRPCError(code, "as told")}
    with pytest.raises(DeviceError, match=words) as raised:
        evaluate(scale_problem, scale_kernel, [4])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (modal.exception.AuthError("bad token"), DeviceError, "Modal refuses the token: bad token; run"),
        (modal.exception.ConnectionError("gone"), DeviceError, "the connection to Modal was lost: gone; .*`resume`"),
        (modal.exception.ServiceError("gone"), DeviceError, "the connection to Modal was lost"),
        (
            modal.exception.ImageBuildError("no such tag", "im-1"),
            DeviceError,
            "Modal cannot build the image: no such tag",
        ),
        (modal.exception.ResourceExhaustedError("no credit"), DeviceError, "Modal: no credit"),
        (modal.exception.FunctionTimeoutError(""), PayloadTimeoutError, "stopped by Modal after 900 s"),
        (modal.exception.InputCancellation("cancelled"), WorkerLostError, "the container was lost: cancelled"),
        (modal.exception.RemoteError("killed"), WorkerLostError, "the container was lost: killed"),
        (modal.exception.ExecutionError("odd"), WorkerLostError, "the container was lost: odd"),
        (modal.exception.OutputExpiredError(), WorkerLostError, "the container was lost: OutputExpiredError"),
        (ZeroDivisionError("a bug"), ZeroDivisionError, "a bug"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_every_exception_of_the_client_is_explained(
    error: BaseException, kind: type[BaseException], words: str
) -> None:
    with pytest.raises(kind, match=words), explained(900):
        raise error


def test_leaving_cancels_the_calls_and_stops_the_app(
    server: ModalServer, scale_problem: Problem, scale_kernel: Kernel
) -> None:
    server.outcomes = [lambda payload: None] * 2
    waiting = modal_evaluator(Resources(containers=2))
    evaluations = waiting.evaluate(scale_problem, scale_kernel, [Config({"BLOCK": 4}), Config({"BLOCK": 8})])
    answered = threading.Event()

    def leave() -> None:
        while server.rpcs.count("FunctionGetOutputs") < 2:
            time.sleep(0.05)
        answered.set()
        first = next(i for i, payload in enumerate(server.payloads) if '"configs":[{"BLOCK":4}]' in payload)
        server._outputs[f"fc-{first}"] = _right(server, first)

    threading.Thread(target=leave).start()
    assert next(evaluations).ok
    assert answered.is_set()
    evaluations.close()
    assert server.rpcs.count("FunctionCallCancel") == 1
    waiting.close()
    assert server.rpcs[-1] == "AppClientDisconnect"


def _right(server: ModalServer, call: int) -> pb.FunctionGetOutputsItem:
    return pb.FunctionGetOutputsItem(
        result=server._succeed(server.payloads[call]), input_id=f"in-fc-{call}", data_format=pb.DATA_FORMAT_CBOR
    )


def refused(problem: Problem, kernel: Kernel, kind: type[KernelwrightError], words: str) -> None:
    began = time.monotonic()
    with pytest.raises(kind, match=words) as raised:
        evaluate(problem, kernel, [4])
    assert "\n" not in str(raised.value)
    assert time.monotonic() - began < 10


def test_without_a_token(scale_problem: Problem, scale_kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("modal.config._user_config", {})
    modal.client._Client._set_env_client(None)
    refused(scale_problem, scale_kernel, DeviceError, "^not logged in to Modal: run 'modal token new', or set MODAL_")


def test_without_a_network(server: ModalServer, scale_problem: Problem, scale_kernel: Kernel, monkeypatch: Any) -> None:
    monkeypatch.setenv("MODAL_SERVER_URL", "http://127.0.0.1:1,http://127.0.0.1:2")
    refused(scale_problem, scale_kernel, DeviceError, "^cannot reach Modal: 127.0.0.1:1: Connection refused")


def test_without_the_client(scale_problem: Problem, scale_kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "modal", None)
    refused(scale_problem, scale_kernel, DeviceError, r"needs Modal's client: pip install 'kernelwright\[remote\]'")
