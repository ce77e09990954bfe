"""Modal's server as far as its client needs it: real gRPC on a local port, and calls that run in this process.

Containers are not started. What a call comes to is the server's `outcomes`, one after the other: a function of the
input's bytes to a result, or by default the method itself, run on the payload that came over the wire.
"""

from __future__ import annotations

import asyncio
import base64
import json
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import modal_proto.api_grpc as grpc
import modal_proto.api_pb2 as pb
from google.protobuf.empty_pb2 import Empty
from grpclib import GRPCError
from grpclib.const import Status
from grpclib.server import Server
from modal._serialization import deserialize_data_format, serialize_data_format

Outcome = Callable[[str], pb.GenericResult | None]
"""None for a call that does not end."""


@dataclass
class ModalServer:
    """The client's calls, and the prepared results."""

    run: Callable[[str], str]
    """A payload to its responses: what the container's method does."""
    outcomes: list[Outcome] = field(default_factory=list)
    """Taken from the front; when there are none left, `run` answers."""
    refuse: dict[str, GRPCError] = field(default_factory=dict)
    """By the name of an RPC."""
    functions: list[pb.Function] = field(default_factory=list)
    images: list[pb.Image] = field(default_factory=list)
    mounted: list[str] = field(default_factory=list)
    payloads: list[str] = field(default_factory=list)
    rpcs: list[str] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)
    url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _outputs: dict[str, pb.FunctionGetOutputsItem | None] = field(default_factory=dict)

    def answer(self, name: str, request: Any) -> Any:
        """The response to one RPC."""
        # AppCreate is answered by _app_create.
        handler = getattr(self, re.sub(r"(?=[A-Z])", "_", name).lower(), None)
        if handler is None:
            raise GRPCError(Status.UNIMPLEMENTED, name)
        return handler(request)

    def _client_hello(self, request: Any) -> Any:
        return pb.ClientHelloResponse()

    def _auth_token_get(self, request: Any) -> Any:
        claims = base64.urlsafe_b64encode(json.dumps({"exp": int(time.time()) + 3600}).encode()).decode().rstrip("=")
        return pb.AuthTokenGetResponse(token=f"x.{claims}.x")

    def _environment_get_or_create(self, request: Any) -> Any:
        settings = pb.EnvironmentSettings(image_builder_version="2025.06")
        return pb.EnvironmentGetOrCreateResponse(
            environment_id="en-1", metadata=pb.EnvironmentMetadata(name="main", settings=settings)
        )

    def _app_create(self, request: Any) -> Any:
        return pb.AppCreateResponse(app_id="ap-1", app_page_url="http://localhost/ap-1")

    def _app_publish(self, request: Any) -> Any:
        return pb.AppPublishResponse(url="http://localhost/ap-1")

    def _app_heartbeat(self, request: Any) -> Any:
        return Empty()

    _app_client_disconnect = _app_heartbeat

    def _mount_get_or_create(self, request: Any) -> Any:
        self.mounted += [file.filename for file in request.files]
        return pb.MountGetOrCreateResponse(mount_id="mo-1", handle_metadata=pb.MountHandleMetadata())

    def _mount_batched_check_existence(self, request: Any) -> Any:
        return pb.MountBatchedCheckExistenceResponse()

    def _mount_put_file(self, request: Any) -> Any:
        return pb.MountPutFileResponse(exists=True)

    def _volume_get_or_create(self, request: Any) -> Any:
        return pb.VolumeGetOrCreateResponse(volume_id="vo-1", metadata=pb.VolumeMetadata(name=request.deployment_name))

    def _image_get_or_create(self, request: Any) -> Any:
        self.images.append(request.image)
        result = pb.GenericResult(status=pb.GenericResult.GENERIC_STATUS_SUCCESS)
        return pb.ImageGetOrCreateResponse(image_id=f"im-{len(self.images)}", result=result)

    def _function_precreate(self, request: Any) -> Any:
        return pb.FunctionPrecreateResponse(function_id="fu-1", handle_metadata=_metadata(request))

    def _function_create(self, request: Any) -> Any:
        data = request.function_data
        if not data.ranked_functions:
            data = pb.FunctionData(ranked_functions=[pb.FunctionData.RankedFunction(function=request.function)])
        self.functions.append(data.ranked_functions[0].function)
        return pb.FunctionCreateResponse(
            function_id="fu-1", function_data=data, handle_metadata=_metadata(self.functions[-1])
        )

    def _class_create(self, request: Any) -> Any:
        return pb.ClassCreateResponse(class_id="cs-1", handle_metadata=pb.ClassHandleMetadata())

    def _function_map(self, request: Any) -> Any:
        (item,) = request.pipelined_inputs
        args, _ = deserialize_data_format(item.input.args, item.input.data_format, None)
        (payload,) = args
        with self._lock:  # calls come at the same time
            call = f"fc-{len(self.payloads)}"
            self.payloads.append(payload)
            outcome = self.outcomes.pop(0) if self.outcomes else self._succeed
        result = outcome(payload)
        self._outputs[call] = result and pb.FunctionGetOutputsItem(
            result=result, idx=item.idx, input_id=f"in-{call}", data_format=pb.DATA_FORMAT_CBOR
        )
        given = pb.FunctionPutInputsResponseItem(idx=item.idx, input_id=f"in-{call}")
        return pb.FunctionMapResponse(function_call_id=call, pipelined_inputs=[given], function_call_jwt="x")

    def _function_get_outputs(self, request: Any) -> Any:
        output = self._outputs[request.function_call_id]
        if output is None:
            time.sleep(min(request.timeout, 0.1))
            return pb.FunctionGetOutputsResponse(num_unfinished_inputs=1)
        return pb.FunctionGetOutputsResponse(outputs=[output])

    def _function_call_cancel(self, request: Any) -> Any:
        return Empty()

    def _succeed(self, payload: str) -> pb.GenericResult:
        data = serialize_data_format(self.run(payload), pb.DATA_FORMAT_CBOR)
        return pb.GenericResult(status=pb.GenericResult.GENERIC_STATUS_SUCCESS, data=data)


def failing(status: int, message: str = "") -> Outcome:
    """A call that ends with a status of Modal's."""
    return lambda payload: pb.GenericResult(status=status, exception=message)  # type: ignore[arg-type]


def _metadata(function: Any) -> pb.FunctionHandleMetadata:
    formats = [pb.DATA_FORMAT_CBOR]
    method = pb.FunctionHandleMetadata(
        function_name="Evaluations.run",
        function_type=pb.Function.FUNCTION_TYPE_FUNCTION,
        supported_input_formats=[pb.DATA_FORMAT_PICKLE, *formats],
        supported_output_formats=formats,
    )
    return pb.FunctionHandleMetadata(
        function_name="Evaluations.*",
        function_type=pb.Function.FUNCTION_TYPE_FUNCTION,
        is_method=False,
        method_handle_metadata={"run": method},
        supported_input_formats=[pb.DATA_FORMAT_PICKLE, *formats],
        supported_output_formats=formats,
        definition_id="de-1",
    )


def _service(server: ModalServer) -> Any:
    def handler(name: str) -> Any:
        async def handle(self: Any, stream: Any) -> None:
            request = await stream.recv_message()
            server.rpcs.append(name)
            server.metadata.append({key: str(value) for key, value in stream.metadata.items()})
            if name in server.refuse:
                raise server.refuse[name]
            response = await asyncio.get_running_loop().run_in_executor(None, server.answer, name, request)
            await stream.send_message(response)

        return handle

    names = grpc.ModalClientBase.__abstractmethods__
    return type("Service", (grpc.ModalClientBase,), {name: handler(name) for name in names})()


@contextmanager
def serving(server: ModalServer) -> Iterator[ModalServer]:
    """The server on a free port of this machine, from a thread of its own."""
    ready: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = queue.SimpleQueue()

    async def serve() -> None:
        service, ended = Server([_service(server)]), asyncio.Event()
        await service.start("127.0.0.1", 0)
        assert service._server is not None
        server.url = f"http://127.0.0.1:{service._server.sockets[0].getsockname()[1]}"
        ready.put((asyncio.get_running_loop(), ended))
        await ended.wait()
        service.close()
        await service.wait_closed()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    loop, ended = ready.get(timeout=10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)
