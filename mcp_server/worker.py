"""The process of one job: `python -m kernelwright.mcp_server.worker`.

The request comes as a line on standard input, and messages go to standard output. The end of the input ends the job as
Ctrl-C would: its workers end, and what it found so far is written.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Container, Mapping
from typing import Any

from ..core import Evaluation, KernelwrightError
from ..core.events import (
    Event,
    FinalsStarted,
    Note,
    ProposalFailed,
    Proposed,
    SearchStarted,
    StartMeasured,
    Step,
    TrialDone,
    TurnEnded,
    Warned,
)
from ..runtime.command import find_command
from ..runtime.interruption import interruptible
from ..runtime.reading import explain
from ..runtime.result import Result, says_what_is_next
from ..runtime.runtime import Runtime
from .messages import Broken, Done, JobRequest, Message, Refused, Wire, in_words_of_tools
from .messages import JobStep as StepMessage
from .offered import argument_names


def main() -> None:
    """Do the job that standard input asks for."""
    wire = Wire(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # output of libraries must not mix with the messages
    request = JobRequest.model_validate_json(_first_line())
    over = threading.Event()
    with contextlib.suppress(KeyboardInterrupt), interruptible():
        threading.Thread(target=_end_with_input, args=(over,), daemon=True).start()
        message = _done(request, wire)
        over.set()
        wire.send(message)


def _done(request: JobRequest, wire: Wire) -> Message:
    try:
        return do(request.job, request.options, wire)
    except KernelwrightError as error:
        names = argument_names(find_command(request.job))
        return Refused(message=in_words_of_tools(error.message, names), hint=in_words_of_tools(error.hint, names))
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return Broken(text=f"{type(error).__name__}: {error}")


def _first_line() -> bytes:
    """The request; nothing follows it but the end."""
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(0, 1 << 16)
        if not chunk:
            sys.exit(1)
        line += chunk
    return line


def _end_with_input(over: threading.Event) -> None:
    while os.read(0, 1 << 16):
        continue
    if not over.is_set():
        os.kill(os.getpid(), signal.SIGTERM)


def do(name: str, given: Mapping[str, Any], wire: Wire) -> Done:
    """Run a command; `given` has its options, the kernel's name in the call, the run, and the server's folder."""
    command = find_command(name)
    with Runtime(Steps(wire).emit) as runtime:
        result = command.call(command.options(**given["options"]), runtime)
    failed = result.failed_kernel
    names = argument_names(command)
    explanation = None if failed is None else explain(given["kernel"], *failed)
    if explanation is not None:
        explanation = explanation.model_copy(update={"text": in_words_of_tools(explanation.text, names)})
    return Done(result=reply(result, given["run"], given["root"], names), explanation=explanation)


def reply(result: Result, run: str, root: str, options: Container[str] = ()) -> dict[str, Any]:
    """Return a tool's reply: the result, its run, warnings and the next step.

    Figures have as many digits as measurements have, paths below `root` are relative to it, and `options` are named as
    the tool's arguments are.
    """
    found = {**({"run": run} if run else {}), **result.to_json()}
    if says_what_is_next(type(result)):
        found |= {"warnings": list(result.doubts), "next": result.next_step}
    shown: dict[str, Any] = _shown(found, f"{root}/", options)
    return shown


def _shown(value: Any, root: str, options: Container[str]) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, str):
        return in_words_of_tools(value.removeprefix(root), options)
    if isinstance(value, Mapping):
        return {name: _shown(item, root, options) for name, item in value.items()}
    return [_shown(item, root, options) for item in value] if isinstance(value, list) else value


class Steps:
    """Counts finished work, and sends a line for each event that matters to a client."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._lock = threading.Lock()
        self._done = 0
        self._total: int | None = None

    def emit(self, event: Event) -> None:
        """Send the line of an event. The number of trials of a run is not known in advance."""
        match event:
            case Step(over=True):
                return
            case Step(total=int()) if event.done:
                self._say(f"{event.text} {event.done}/{event.total}: {event.name}", over=1)
            case Step():
                self._total = event.total if event.total is not None else self._total
                self._say(event.text)
            case SearchStarted():
                trials = event.most_trials
                self._total = None if trials is None else trials + 1  # the comparison of the finalists
                self._say(f"tuning: {event.configs or 'very many'} configs, at most {trials or 'all'} trials")
            case TrialDone():
                self._say(_trial(event), over=1)
            case _ if line := _line(event):
                self._say(line)

    def _say(self, text: str, over: int = 0) -> None:
        """Send a line; `over` more steps are done."""
        with self._lock:
            self._done += over
            self._wire.send(StepMessage(done=self._done, total=self._total, text=text))


def _line(event: Event) -> str:
    """Return the line of an event; '' if it does not matter to a client."""
    match event:
        case Note():
            return event.text
        case Warned():
            return f"warning: {event.text}"
        case FinalsStarted():
            return f"measuring {len(event.configs) - 1} finalists and the unchanged kernel, interleaved"
        case StartMeasured():
            return f"start: {_outcome(event.evaluation)}; the roofline's floor is {event.profile.floor_ms:.4g} ms"
        case Proposed(quick=True):
            return f"trying {', '.join(proposal.strategy for proposal in event.proposals)}, one trial each"
        case Proposed():
            return f"trying {event.proposals[0].strategy}: at most {event.trials} configs"
        case ProposalFailed():
            return event.error
        case TurnEnded():
            speedup = event.best.speedup if event.best is not None else None
            gain = f"the fastest so far, {speedup} against the reference" if speedup else "nothing faster"
            return f"turn {event.number}: {event.strategy} ({event.category}): {gain}"
    return ""


def _trial(trial: TrialDone) -> str:
    """Return a trial's result, and the best so far of a search."""
    if not trial.number:
        return f"{trial.origin}: {_outcome(trial.evaluation)}"
    best = trial.best.latency_ms if trial.best else None
    return f"trial {trial.number}: {_outcome(trial.evaluation)}{f'; best {best:.4g} ms' if best else ''}"


def _outcome(evaluation: Evaluation) -> str:
    if evaluation.latency_ms is None:
        return evaluation.status.value.replace("_", " ")
    return f"{evaluation.status.value}, {evaluation.latency_ms:.4g} ms"


if __name__ == "__main__":
    main()
