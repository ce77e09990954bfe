"""What the run-time guards say of the corpus's own kernels on this CPU: run as a script, prints JSON by kernel.

python run_corpus.py BACKEND [NAME ...]
"""

from __future__ import annotations

import functools
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


def main(wanted: list[str]) -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    import tilelang
    import torch
    import triton  # noqa: F401  (what the warm server imports is there before a kernel is)
    from kernelwright.core import Kernel, Problem
    from kernelwright.core.space_inference import declared_space
    from kernelwright.corpus import find_problem, list_examples, list_kernels
    from kernelwright.evaluators.guards.own_kernels import LaunchCounter, own_names, proof_violation
    from kernelwright.evaluators.guards.torch_share import Operator, operators_of, torch_violation
    from kernelwright.evaluators.guards.watch import Watch
    from kernelwright.evaluators.profiling import op_counter
    from kernelwright.evaluators.settings import AllowTorch
    from kernelwright.evaluators.workers.modules import ProblemModule, load

    def cases() -> Iterator[tuple[str, Problem, Kernel]]:
        for backend in ("tilelang_cpu", "triton"):
            for file in list_kernels(backend):
                yield f"{backend}/{file.problem}", find_problem(file.problem).read(), file.read()
            for folder in list_examples():
                for which in ("before", "after") if folder.backend == backend else ():
                    yield f"{folder.slug}/{which}", folder.read_problem(), folder.read_kernel(which)

    tilelang.set_log_level("ERROR")
    watch = Watch("cpu")
    found = {}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for number, (name, problem, kernel) in enumerate(cases()):
            if wanted and name not in wanted:
                continue
            at = problem.at("tiny")
            (path := Path(folder, f"problem_{number}.py")).write_text(at.source)
            module = ProblemModule(path, at.sizes, "cpu")
            watch.follow(module.module)
            source = kernel.bind(declared_space(kernel).default).source if declared_space(kernel) else kernel.source
            (path := Path(folder, f"kernel_{number}.py")).write_text(source)
            model, inputs = load(f"kernel_{number}", path).ModelNew(*module.init_inputs()), module.inputs(1)
            model(*inputs)
            with LaunchCounter("cpu") as counter:
                model(*inputs)
            reference = op_counter.count(module.model(1), inputs)["details"]
            described = operators_of(functools.partial(model, *inputs))
            seen, theirs = ([Operator(**operator) for operator in operators] for operators in (described, reference))
            found[name] = {
                "watch": watch.violations(name),
                "torch": str(torch_violation(seen, theirs, AllowTorch.GLUE) or ""),
                "give-back": str(torch_violation(theirs, theirs, AllowTorch.GLUE) or ""),
                "proof": str(proof_violation(None, counter.counts, AllowTorch.GLUE) or ""),
                "launches": sorted(counter.counts),
                "foreign": sorted(set(counter.counts) - own_names(source)),
                "operators": [operator.name for operator in seen if operator.kind in ("compute", "layout", "leaving")],
            }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
