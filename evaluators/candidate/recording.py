"""Records a launch plan in the candidate's process, once its calls have settled."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..languages.base import UntraceableCallError
from ..replay.record import Recorder, launches_of
from ..replay.values import UnplannableCallError
from ..workers import tensor_ipc
from ..workers.channel import Message
from ..workers.modules import load_weights

CALLS_BEFORE, CALLS_BEFORE_S = 20, 0.25
"""Calls before the recorded one, and the seconds after which fewer are enough."""


def record_plan(
    current: Any,
    model: Any,
    inputs: Sequence[Any],
    reads_integers: bool,
    synchronize: Callable[[], None],
    plan: Path,
    constants: Path,
) -> Message:
    """Load the weights of `current` into a new model, and record a call of it.

    Not its first call: a kernel may allocate buffers then, and another may stop working after some calls. Writes the
    plan, and the constants that it names, to files. `reason` in the response says why there is no plan; `changing`
    whether calls in between launched something else.
    """
    import torch

    packing, state = Recorder(), torch.nn.Module.state_dict(current)
    start, earlier = time.perf_counter(), []
    try:
        packing.record_packing(model, lambda: load_weights(model, state), state)
        for _ in range(CALLS_BEFORE):
            earlier.append(launches_of(lambda: model(*inputs)))
            synchronize()
            if time.perf_counter() - start > CALLS_BEFORE_S:
                break
        before = Recorder(packing, reads_integers=reads_integers)
        planned = before.record(model, inputs)
        recorder = Recorder(packing, before, reads_integers=reads_integers)
        recorded = recorder.record(model, inputs)
    except (UnplannableCallError, UntraceableCallError) as reason:
        return {"reason": str(reason), "constants": []}
    finally:
        packing.release()
    launches = sorted((launch.code, launch.grid) for launch in recorded.launches())
    changing = any(item != launches for item in earlier[1:]) or planned.difference(recorded) is not None
    plan.write_text(recorded.model_dump_json())
    constant = tensor_ipc.write([*recorder.constants.values(), *recorder.packing_constants], constants)
    return {"reason": None, "changing": changing, "constants": constant, "reads": recorder.reads}
