"""The worker that runs the reference: weights, expected outputs, the comparison, the baselines' times.

It executes the problem's file and none of the candidate's code. A failure of the reference is returned as its text.
"""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

from ..languages.helpers import keep_helpers
from ..timing.priority import Scheduling
from ..workers.channel import Channel, Message
from ..workers.memory import release_cache
from ..workers.request_loop import Handler, describe, serve_requests
from ..workers.user_modules import enter_package
from .accepted_inputs import InputRequests
from .arithmetic import Arithmetic
from .checks import CheckRequests
from .comparison import Comparison
from .description import DescribeRequests
from .drawn_reference import DrawnReference
from .handovers import HandoverRequests
from .inductor import InductorRequests
from .integers import IntegerRequests
from .operator_graphs import GraphRequests
from .timing import TimeRequests


def serve(channel: Channel, options: Message) -> None:
    """Serve requests until the channel closes."""
    if "helpers" in options:
        keep_helpers(Path(options["helpers"]))
    enter_package(options.get("package"))
    workloads = Workloads(options, Arithmetic.of(options))
    handlers: dict[str, Handler] = {name: workloads.handler(name) for name in workloads.now.handlers}
    handlers |= {"resize": workloads.resize, "move": workloads.move}
    serve_requests(channel, handlers, lambda error: {"error": describe(error)}, options["device"])


class Workloads:
    """One problem at the most recent sizes; results for other sizes are kept."""

    def __init__(self, options: Message, arithmetic: Arithmetic) -> None:
        self._options = options
        self._arithmetic = arithmetic
        self._scheduling = Scheduling()
        self._known: dict[str, LoadedWorkload] = {}
        self.now = self._at(options["sizes"])

    def resize(self, sizes: Message) -> Message:
        """Serve the problem at these sizes from now on."""
        self.now.reference.release()
        self.now = self._at(sizes)
        return {}

    def move(self, sizes: Message) -> Message:
        """Serve the problem at these sizes from now on, and free what is known of all others."""
        self._known.clear()
        self.now = self._at(sizes)
        gc.collect()  # models and plans may be in cycles, and hold the device's memory
        release_cache(self._options["device"])
        return {}

    def handler(self, name: str) -> Handler:
        """Return a handler that serves a request at the current sizes."""

        def serve_one(**request: Any) -> Message:
            self._arithmetic.main.set()  # a problem's file may have set the switches
            return self.now.handlers[name](**request)

        return serve_one

    def _at(self, sizes: Message) -> LoadedWorkload:
        key = json.dumps(sizes, sort_keys=True)
        if key not in self._known:
            self._known[key] = LoadedWorkload({**self._options, "sizes": sizes}, self._arithmetic, self._scheduling)
        return self._known[key]


class LoadedWorkload:
    """The reference at one workload, and what serves requests about it."""

    def __init__(self, options: Message, arithmetic: Arithmetic, scheduling: Scheduling) -> None:
        self.reference = DrawnReference(options, arithmetic, scheduling)
        comparison = Comparison(self.reference)
        groups = (
            DescribeRequests(self.reference),
            InputRequests(self.reference, comparison),
            IntegerRequests(self.reference),
            CheckRequests(self.reference, comparison),
            HandoverRequests(self.reference),
            TimeRequests(self.reference),
            InductorRequests(self.reference),
            GraphRequests(self.reference),
        )
        self.handlers: dict[str, Handler] = {name: getattr(group, name) for group in groups for name in group.REQUESTS}
        """By the name of the request."""
