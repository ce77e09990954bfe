"""The program that ncu and rocprofv3 run: it calls a kernel until all is compiled, and once more to count.

Run as `python -m kernelwright.evaluators.profiling.counter_target REQUEST`, a JSON file with the paths of problem and
kernel, the problem's sizes, the device and a seed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ..workers.modules import ProblemModule, load_weights
from ..workers.user_modules import CandidateModules

WARM_UPS = 2


def main(request: dict[str, Any]) -> None:
    """Call the kernel; only the last call is between the marks for the profiler."""
    import torch

    device = request["device"]
    on_gpu = device.startswith("cuda")
    if on_gpu:
        torch.cuda.set_device(torch.device(device if ":" in device else f"{device}:0"))
    modules = CandidateModules(request["package"])
    problem = ProblemModule(Path(request["problem"]), request["sizes"], device)
    torch.manual_seed(request["seed"])
    module = modules.load("kernelwright_candidate", Path(request["kernel"]))
    model = module.ModelNew(*problem.init_inputs()).to(device)
    inputs = problem.inputs(request["seed"])
    load_weights(model)
    with torch.no_grad():
        for _ in range(WARM_UPS):
            model(*inputs)
        if on_gpu:
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
        model(*inputs)
        if on_gpu:
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
