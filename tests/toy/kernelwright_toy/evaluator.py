"""An evaluator of another package: the machine next door is a process of its own, which gets payloads as JSON lines."""

import json
import subprocess
import sys
import threading
from typing import Any

from kernelwright.remote import (
    EvaluatorEntry,
    Payload,
    PayloadCancelledError,
    RemoteOptions,
    Response,
    Settings,
    WorkerHost,
    WorkerLostError,
)


class NextDoor:
    """Runs payloads in one process, one after the other; it is started again where it was lost."""

    device = "cpu"
    label = "next door"
    cpus = 2

    def __init__(self, options: RemoteOptions, settings: Settings) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def check(self) -> None:
        pass

    def open(self) -> None:
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )

    def count(self) -> int:
        return 1

    def run(self, payload: Payload, given_up: threading.Event) -> list[Response]:
        if given_up.is_set():
            raise PayloadCancelledError
        self.open()
        with self._lock:
            process = self._process
            if process is None or process.stdin is None or process.stdout is None:
                raise PayloadCancelledError  # closed meanwhile
            try:
                print(payload.model_dump_json(), file=process.stdin, flush=True)
                line = process.stdout.readline()
            except OSError:
                line = ""
            if not line:
                self._process = None
                raise WorkerLostError("the process next door ended")
        found: list[Response] = json.loads(line)
        return found

    def close(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.communicate()


def serve(host: Any) -> None:
    """Run each payload of standard input."""
    for line in sys.stdin:
        print(json.dumps(host.run(Payload.model_validate_json(line))), flush=True)
    host.close()


next_door = EvaluatorEntry(NextDoor)

if __name__ == "__main__":
    serve(WorkerHost("cpu"))
