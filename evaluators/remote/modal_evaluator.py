"""`evaluator` modal: evaluations in containers with a GPU, on Modal."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from ...core import DeviceError
from ...core.text import first_line
from ..settings import SearchSettings, Settings
from .modal_app import Resources, build, time_limit_s
from .options import CUDA, RemoteOptions
from .payload import RESPONSES, Payload, Response
from .reach import unreachable
from .workers import PayloadCancelledError, PayloadTimeoutError, WorkerLostError, polled

POLL_S = 2.0
LOGIN = "run 'modal token new', or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"


def start(options: RemoteOptions, settings: Settings) -> ModalContainers:
    """Return containers with the chosen GPU; nothing starts before the first payload."""
    resources = Resources(gpu=options.gpu)
    search = SearchSettings.of(None, resources.cpus, True, False)  # whose windows take longest
    return ModalContainers(resources, replace(settings, search=search))


class ModalContainers:
    """Implements `Workers`: an app that runs from the first payload until `close`."""

    device = CUDA

    def __init__(self, resources: Resources, settings: Settings) -> None:
        """`settings` are those with the most work: they determine a container's time limit."""
        try:
            import modal  # noqa: F401
        except ImportError:
            raise DeviceError("`evaluator` modal needs Modal's client: pip install 'kernelwright[remote]'") from None
        self.resources = resources
        self._time_limit_s = time_limit_s(settings)
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self._run: Any = None
        """The remote method, once the app runs."""

    @property
    def label(self) -> str:
        """'Modal H100'."""
        return f"Modal {self.resources.gpu}"

    @property
    def cpus(self) -> int:
        """See `Workers`."""
        return self.resources.cpus

    def check(self) -> None:
        """Raise `DeviceError` when there is no token, or no way to Modal's servers."""
        check_login()

    def open(self) -> None:
        """See `Workers`: the first time, Modal builds the image, which takes minutes."""
        try:
            with explained(self._time_limit_s):
                self._method()
        except (WorkerLostError, PayloadTimeoutError) as error:
            raise DeviceError(f"Modal: {error}") from None

    def count(self) -> int:
        """See `Workers`."""
        return self.resources.containers

    def run(self, payload: Payload, given_up: threading.Event) -> list[Response]:
        """See `Workers`; Modal has retried a lost container several times already."""
        call = None
        with explained(self._time_limit_s):
            try:
                call = self._method().spawn(payload.model_dump_json())
                for _ in polled(0.0, given_up):
                    with contextlib.suppress(TimeoutError):
                        return RESPONSES.validate_json(call.get(timeout=POLL_S))
            except BaseException:
                if call is not None:
                    with contextlib.suppress(Exception):
                        call.cancel()
                raise
        raise PayloadCancelledError

    def close(self) -> None:
        """Stop the app and all its containers."""
        with self._lock, contextlib.suppress(Exception):
            self._run = None
            self._stack.close()

    def _method(self) -> Any:
        with self._lock:
            if self._run is None:
                check_login()
                app, evaluations = build(self.resources, self._time_limit_s)
                self._stack.enter_context(app.run())
                self._run = evaluations().run
            return self._run


def check_login() -> None:
    """Raise `DeviceError` when there is no token, or no way to Modal's servers (its client would try for a minute)."""
    from modal.config import config

    if not ((config.get("token_id") and config.get("token_secret")) or config.get("oauth_refresh_token")):
        raise DeviceError(f"not logged in to Modal: {LOGIN}")
    reasons = []
    for server in config.get("server_url").split(","):
        url = urlsplit(server)
        why = unreachable(url.hostname or "", url.port or (443 if url.scheme == "https" else 80))
        if why is None:
            return
        reasons.append(why)
    raise DeviceError(f"cannot reach Modal: {reasons[0]}; check the network")


class explained(contextlib.AbstractContextManager[None]):  # noqa: N801  (used like a function)
    """Turn exceptions of Modal's client into `WorkerLostError`, `PayloadTimeoutError` or a one-line `DeviceError`."""

    def __init__(self, time_limit_s: int) -> None:
        self._time_limit_s = time_limit_s

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        from modal import exception as modal_errors

        if error is None:
            return
        if isinstance(error, modal_errors.FunctionTimeoutError):
            raise PayloadTimeoutError(f"stopped by Modal after {self._time_limit_s} s (evaluating)") from None
        lost = (
            modal_errors.RemoteError,
            modal_errors.InternalFailure,
            modal_errors.InternalError,
            modal_errors.ExecutionError,
            modal_errors.OutputExpiredError,
            modal_errors.InputCancellation,
        )
        if isinstance(error, modal_errors.ImageBuildError):
            raise DeviceError(f"Modal cannot build the image: {first_line(error)}") from None
        if isinstance(error, lost):
            raise WorkerLostError(f"the container was lost: {first_line(error)}") from None
        if isinstance(error, modal_errors.AuthError):
            raise DeviceError(f"Modal refuses the token: {first_line(error)}; {LOGIN}") from None
        if isinstance(error, modal_errors.ConnectionError | modal_errors.ServiceError | modal_errors.ClientClosed):
            raise DeviceError(
                f"the connection to Modal was lost: {first_line(error)}; run again with `resume`"
            ) from None
        if isinstance(error, modal_errors.Error):
            raise DeviceError(f"Modal: {first_line(error)}") from None
