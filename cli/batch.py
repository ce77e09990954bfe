"""`optimize --batch FILE`: many kernels, one after the other; a failure ends one of them, not the batch."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

from ..agent.results import Results
from ..core import KernelwrightError, OptionError, Waiting
from ..evaluators.remote.machines import Remote
from . import wiring
from .optimize import earlier_summary, optimize_one
from .proposers import Proposers
from .render import Screen
from .request import Request


def run_batch(request: Request) -> int:
    """Optimize every kernel named; 0 when all of them ended with a verified kernel."""
    with request.machines.joined(request.device) as remote:
        return _batch(request, remote)


def _batch(request: Request, remote: Remote | None) -> int:
    assert request.batch is not None
    references = read_references(request.batch)
    screen = Screen(request)
    device = wiring.choose_device(request, remote)
    proposers = Proposers(request, screen)
    results = Results(request.results)
    summaries: list[dict[str, Any]] = []
    with wiring.Evaluators(device, request.beam, request.trust, remote) as evaluators:
        for number, reference in enumerate(references, start=1):
            screen.heading(f"[{number}/{len(references)}] {reference}")
            try:
                job = wiring.job(request, reference, device, remote)
                path = results.journal_path(job.problem, job.backend)
                done = earlier_summary(path, job, request.target_speedup) if request.resume else None
                if done is not None:
                    screen.note(f"finished before: {reference}")
                    summaries.append(done)
                    continue
                finished = optimize_one(request, job, evaluators, proposers, results, screen)
                screen.finished(finished)
                summaries.append(finished.summary())
            except Waiting:
                raise
            except Exception as error:  # even a bug of ours costs one kernel of a batch, not the rest
                if not isinstance(error, KernelwrightError):
                    traceback.print_exc()
                screen.warn(f"{reference}: {error}")
                summaries.append({"problem": reference, "verified": False, "error": str(error)})
    screen.batch_table(summaries)
    if request.json:
        print(json.dumps({"results": summaries}), file=sys.stdout)
    return 0 if all(summary["verified"] for summary in summaries) else 1


def read_references(source: str) -> list[str]:
    """The kernels named in a file or on standard input: the last word of each line, # begins a comment."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read --batch {source}: {error}") from None
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    if references := [words[-1] for words in lines if words]:
        return list(dict.fromkeys(references))
    raise OptionError(f"--batch {source} names no kernels; write one a line, such as level2/2_10.py")
