"""Many configs for a search: compiled ahead in parallel, measured one at a time, and equal code once."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator, Iterable, Sequence

from ...core import Config, Evaluation, Kernel, TorchProblem
from ..compilation.ahead import compiled_ahead
from ..settings import SearchSettings
from .candidate_runner import CandidateRunner
from .verdicts import compile_failure, duplicate_evaluation


def searched(
    runner: CandidateRunner,
    search: SearchSettings,
    problem: TorchProblem,
    first: Kernel,
    pairs: Iterable[tuple[Kernel, Config]],
    earlier: Sequence[Evaluation],
) -> Generator[Evaluation]:
    """Compile ahead in parallel; measure compiled configs one at a time, and equal code once.

    All kernels are measured in one process, with the cache of the `first`.
    """
    reference_client = runner.reference_for(problem, first)
    cache = runner.processes.cache(first)
    client = runner.new_client(problem, first, cache)
    known = {e.code_digest: e for e in earlier if e.code_digest is not None and e.duplicate_of is None and e.measured}
    best_ms = min((e.latency_ms for e in earlier if e.latency_ms is not None), default=math.inf)
    with contextlib.ExitStack() as ending:
        ending.callback(runner.processes.later, client.close)  # what it has on a GPU is freed in the background
        ending.callback(client.kill)
        client.start()
        with runner.processes.compilers(problem, cache, search.compilers) as pool:
            ahead = compiled_ahead(
                pairs,
                submit=lambda pair: pool.submit(pair[0].bind(pair[1]).source),
                window=search.window,
                together=runner.device == "cpu",
            )
            for (kernel, config), compiled in ahead:
                client.kernel = kernel
                if compiled.digest in known:
                    yield duplicate_evaluation(known[compiled.digest], kernel, config)
                    continue
                if compiled.is_verdict:
                    yield compile_failure(reference_client, kernel, config, compiled)
                    continue
                reference_client = runner.reference_for(problem, kernel)
                client.open()  # after a rejected kernel it is a new one
                runner.processes.tidy()
                client.load_ahead(config)
                with runner.shared(reference_client):
                    evaluation = runner.evaluate(
                        reference_client, client, config, compiled, search.prune_factor * best_ms
                    )
                best_ms = min(best_ms, evaluation.latency_ms or math.inf)
                if compiled.digest is not None and evaluation.measured:
                    known[compiled.digest] = evaluation
                yield evaluation
