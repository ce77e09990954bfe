"""The worker that evaluates a kernel as KernelBench does: reference and candidate in one process.

Follows KernelBench's src/kernelbench/eval.py and timing.py at commit 423217d, and keeps their order, seeds,
tolerances, texts and gaps: the seed is 42 before each constructor and no weights are copied, no model is put into
evaluation mode, inputs are not cloned, dtypes are not compared, and gradients are on during timing.

Requests: open (returns the machine), evaluate (both sources). Everything happens in the candidate's process, so a
dishonest candidate can write any response.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..workers.channel import Channel, ChannelClosedError, Message
from .device import TimedDevice, open_device
from .precision import KernelBenchPrecision

SEED = 42
WARM_UPS = 3
DISCARDED = 1
"""Timed calls at the beginning that are discarded."""
EXCESSIVE = 10.0
"""A speedup above this is marked in the metadata."""
MESSAGE_LENGTH = 200


def serve(channel: Channel, options: Message) -> None:
    """Serve requests until the channel closes."""
    device = open_device(options["device"], options["label"])
    while True:
        try:
            request = channel.receive()
        except ChannelClosedError:
            return
        nonce = request.pop("nonce")
        if request.pop("op") == "open":
            channel.send({"hardware": device.name, "uuid": _uuid(device), "nonce": nonce})
        else:
            channel.send({"result": KernelBenchProtocol(device, **request).run(), "nonce": nonce})


class KernelBenchProtocol:
    """One evaluation. `backend` is 'cuda' for sources with inline CUDA, which KernelBench loads differently."""

    def __init__(
        self,
        device: TimedDevice,
        reference: str,
        sizes: Message,
        candidate: str,
        backend: str,
        precision: str,
        correct_trials: int,
        perf_trials: int,
    ) -> None:
        import torch

        self.device = device
        self.reference, self.sizes, self.candidate, self.backend = reference, sizes, candidate, backend
        self.precision = KernelBenchPrecision(precision)
        self.dtype: Any = getattr(torch, self.precision.dtype)
        self.correct_trials, self.perf_trials = correct_trials, perf_trials
        self.metadata: Message = {"hardware": device.name, "device": device.label}
        self.seeds: list[int] = []
        self.context: dict[str, Any] = {}

    def run(self) -> Message:
        """Return the result as JSON; an error that nothing else catches counts as 'not compiled'."""
        try:
            return self._evaluate()
        except Exception as error:
            kind = "cuda_error" if "CUDA error" in str(error) else "other_error"
            text = f"{'CUDA Error' if kind == 'cuda_error' else 'error'}: {error}"
            where = {"hardware": self.device.name, "device": self.device.label}
            return {"metadata": {kind: text, f"{kind}_name": _name_of(error), **where}, "seeds": self.seeds}

    def _evaluate(self) -> Message:
        import torch

        torch.set_printoptions(precision=4, threshold=10, edgeitems=3, linewidth=80)
        exec(compile(self.reference, "<string>", "exec"), self.context)
        # JSON has no tuples: a size that is a list was a tuple.
        self.context.update({k: tuple(v) if isinstance(v, list) else v for k, v in self.sizes.items()})
        model_class, get_inputs = self.context["Model"], self.context["get_inputs"]
        self.device.set_seed(SEED)
        init_inputs = self._cast(self.context["get_init_inputs"]())
        with torch.no_grad():
            self.device.set_seed(SEED)
            model = model_class(*init_inputs)
        try:
            os.environ["TORCH_USE_CUDA_DSA"] = "1"
            new_class = self._load()
            self.device.synchronize()
        except Exception as error:
            return self._not_compiled(_name_of(error), str(error))
        if new_class is None:
            return self._not_compiled("SyntaxError", "Syntax error in custom generated code or ModelNew not found")
        try:
            with torch.no_grad():
                self.device.set_seed(SEED)
                new_model = new_class(*init_inputs)
                model = self._move(model)
                new_model = self._move(new_model)
                self.device.synchronize()
        except RuntimeError as error:
            self._note_runtime_error(error)
            return self._result(correct=False)
        try:
            correct = self._check(model, new_model, get_inputs)
        except Exception as error:
            self._note_runtime_error(error)
            correct = False
        result = self._result(correct)
        return self._time_both(result, model, new_model, get_inputs) if self.perf_trials else result

    def _load(self) -> Any:
        """Return the candidate's ModelNew, executed as KernelBench does for its backend."""
        if self.backend == "cuda":
            build = Path(tempfile.mkdtemp())
            prefix = f"import os\nos.environ['TORCH_EXTENSIONS_DIR'] = {str(build)!r}\n"
            try:
                exec(compile(prefix + self.candidate, "<string>", "exec"), self.context)
            except SyntaxError:
                return None
            return self.context.get("ModelNew")
        # Triton and TileLang read a kernel's source from its file.
        with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
            file.write(self.candidate)
        spec = importlib.util.spec_from_file_location("temp_module", file.name)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.ModelNew

    def _check(self, model: Any, new_model: Any, get_inputs: Any) -> bool:
        """Return whether every check agrees; the reference runs first, and both get the same tensors."""
        import torch

        torch.manual_seed(SEED)
        drawn = [int(torch.randint(0, 2**32 - 1, (1,)).item()) for _ in range(self.correct_trials)]
        passed = 0
        with torch.no_grad():
            for seed in drawn:
                self.seeds.append(seed)
                self.device.set_seed(seed)
                inputs = self._cast(get_inputs())
                self.device.set_seed(seed)
                model = self._move(model)
                self.device.set_seed(seed)
                new_model = self._move(new_model)
                expected = model(*inputs)
                self.device.synchronize()
                try:
                    got = new_model(*inputs)
                    self.device.synchronize()
                    if expected.shape != got.shape:
                        text = f"Output shape mismatch: Expected {expected.shape}, got {got.shape}"
                        self.metadata |= {"correctness_issue": text, "correctness_issue_name": "correctness_issue"}
                        return False
                    passed += self._agree(expected, got)
                except Exception as error:
                    self.metadata["runtime_error"] = _shortened(str(error))
                    self.metadata["runtime_error_name"] = _name_of(error)
                    self.metadata["runtime_error_traceback"] = traceback.format_exc()
                    return False
        self.metadata["correctness_trials"] = f"({passed} / {self.correct_trials})"
        return passed == self.correct_trials

    def _agree(self, expected: Any, got: Any) -> bool:
        import torch

        tolerance = self.precision.tolerance
        if torch.allclose(expected, got, atol=tolerance, rtol=tolerance):
            return True
        difference = torch.abs(expected - got)
        largest, average = torch.max(difference).item(), torch.mean(difference).item()
        self.metadata.setdefault("max_difference", []).append(f"{largest:.6f}")
        self.metadata.setdefault("avg_difference", []).append(f"{average:.6f}")
        self.metadata["correctness_issue"] = "Output mismatch"
        return False

    def _time_both(self, result: Message, model: Any, new_model: Any, get_inputs: Any) -> Message:
        """Time the candidate where it is correct, and then the reference in any case."""
        if result["correctness"]:
            try:
                stats = self._time(new_model, get_inputs)
                result |= {"runtime": stats["mean"], "runtime_stats": stats}
            except Exception as error:
                self.metadata["error_during_performance"] = str(error)
        stats = self._time(model, get_inputs)
        result |= {"ref_runtime": stats["mean"], "ref_runtime_stats": stats}
        if result.get("runtime") and stats["mean"] / result["runtime"] > EXCESSIVE:
            self.metadata["excessive_speedup"] = True
        return result

    def _time(self, model: Any, get_inputs: Any) -> Message:
        import numpy as np

        self.device.synchronize()
        self.device.set_seed(SEED)
        inputs = self._cast(get_inputs())
        model = self._move(model)
        self.device.synchronize()
        for _ in range(WARM_UPS):
            model(*inputs)
            self.device.synchronize()
        self.device.forget_free_memory()
        times = [self.device.time(lambda: model(*inputs)) for _ in range(DISCARDED + self.perf_trials)][DISCARDED:]
        metrics = {"mean": np.mean(times), "std": np.std(times), "min": np.min(times), "max": np.max(times)}
        rounded = {name: float(f"{value:.3g}") for name, value in metrics.items()}
        return {**rounded, "num_trials": len(times), "hardware": self.device.name, "device": self.device.label}

    def _cast(self, values: Sequence[Any]) -> list[Any]:
        """Return every tensor in the precision and on the device, integers too."""
        import torch

        return [
            value.to(dtype=self.dtype).to(device=self.device.torch_device) if isinstance(value, torch.Tensor) else value
            for value in values
        ]

    def _move(self, model: Any) -> Any:
        return model.to(device=self.device.torch_device, dtype=self.dtype)

    def _not_compiled(self, name: str, text: str) -> Message:
        self.metadata |= {"compilation_error_name": name, "compilation_error": text}
        return {"compiled": False, "metadata": self.metadata}

    def _note_runtime_error(self, error: Exception) -> None:
        self.metadata |= {"runtime_error": str(error), "runtime_error_name": _name_of(error)}

    def _result(self, correct: bool) -> Message:
        return {"compiled": True, "correctness": correct, "metadata": self.metadata, "seeds": self.seeds}


def _name_of(error: BaseException) -> str:
    """Return the full name, such as 'builtins.ValueError'."""
    return f"{type(error).__module__}.{type(error).__name__}"


def _shortened(text: str) -> str:
    return text if len(text) <= MESSAGE_LENGTH else text[: MESSAGE_LENGTH - 3] + "..."


def _uuid(device: TimedDevice) -> str | None:
    """Return the UUID, which names the lock of a GPU."""
    import torch

    return str(torch.cuda.get_device_properties(0).uuid) if device.torch_device != "cpu" else None
