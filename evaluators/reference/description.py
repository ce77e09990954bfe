"""Requests that describe the reference and the machine."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from ...core import known_languages
from ..correctness.digest import HeldOutput
from ..correctness.reference_checks import require_reference
from ..correctness.side_effects import SideEffects, WrittenWeights
from ..devices import CUDA, present
from ..profiling import op_counter, peaks
from ..profiling.gpu_properties import describe_gpu
from ..workers.channel import Message
from ..workers.memory import size_of
from ..workers.modules import weights_of
from ..workers.user_call import count_written, returned_nothing
from .drawn_reference import UNKNOWN, DrawnReference


class DescribeRequests:
    """Describes the reference and its inputs; each method serves the request of its name."""

    REQUESTS = ("open", "count", "ceilings", "properties", "release", "finds_room", "save_memory")

    def __init__(self, reference: DrawnReference) -> None:
        self._reference = reference

    def open(self) -> Message:
        """Run the reference twice; return the machine's description, and the reference's side effects on its inputs."""
        import torch

        reference = self._reference
        outputs, found = self._first_call()
        if found["changed"] and returned_nothing():
            count_written(found["changed"])
            outputs, found = self._first_call()
        reference.written_weights = frozenset(found["weights"])
        found["input_bytes"] = size_of(reference.inputs)
        found["output_bytes"] = size_of(outputs)
        found["tensor_bytes"] = size_of([*reference.inputs, *weights_of(reference.model).values(), *outputs])
        reference.tensor_bytes = found["tensor_bytes"]
        reference.changes_inputs = bool(found["changed"])
        same = reference.arithmetic.main == reference.arithmetic.default or self._defaults_make_no_difference(outputs)
        reference.prepare(0)
        torch.manual_seed(1)  # else dropout draws the same again
        require_reference(outputs, reference.outputs(reference.inputs))
        del outputs
        reference.forget_inputs()
        reference.release()
        described = environment(reference.device)
        if reference.device.startswith("cuda"):
            described["tf32"] = str(reference.arithmetic.main)
        arithmetic = {"precision": reference.arithmetic.precision.value, "default_is_reference": same}
        return {"environment": described, "arithmetic": arithmetic, **found}

    def _first_call(self) -> tuple[list[Any], Message]:
        """Return a call's outputs, and its side effects."""
        reference = self._reference
        reference.forget_inputs()
        reference.prepare(0)
        effects, written = SideEffects(reference.inputs), WrittenWeights(weights_of(reference.model))
        outputs = reference.outputs(reference.inputs)
        return outputs, {**effects.of(outputs), "weights": written.names()}

    def _defaults_make_no_difference(self, expected: list[Any]) -> bool:
        """Return whether PyTorch's defaults change no operator of the reference, and no bit of its result."""
        reference = self._reference
        reference.prepare(0)
        default = reference.arithmetic.default
        with reference.arithmetic.switched(default):
            outputs, seen = op_counter.observe(lambda: reference.outputs(reference.inputs))
        if any(default.changes(operator["name"], operator["family"]) for operator in seen):
            return False
        return [HeldOutput.of(output) for output in outputs] == [HeldOutput.of(item) for item in expected]

    def count(self) -> Message:
        """Count the reference's operations and bytes."""
        reference = self._reference
        reference.prepare(0)
        counted = op_counter.count(reference.model, reference.inputs)
        reference.release()
        return counted

    def ceilings(self) -> Message:
        """Measure the device's peak rates."""
        return peaks.measure(self._reference.device)

    def properties(self) -> Message:
        """Return torch's properties of the GPU; empty for a CPU."""
        device = self._reference.device
        return {"properties": describe_gpu(device) if device.startswith("cuda") else None}

    def release(self) -> Message:
        """Free what can be drawn again, where it is large: the candidate may need the memory next."""
        self._reference.close_opened()
        self._reference.release()
        return {}

    def finds_room(self) -> Message:
        """Return as `room` whether a check needs none of the memory that other processes have."""
        return {"room": self._reference.finds_room}

    def save_memory(self) -> Message:
        """From now on keep nothing large that can be drawn again."""
        self._reference.tensor_bytes = UNKNOWN
        return {}


def environment(device: str) -> dict[str, str]:
    """Return device, versions and threads as texts for the record."""
    import torch

    found = {
        "device": device_name(device),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": str(torch.get_num_threads()),
    }
    from importlib.metadata import PackageNotFoundError, version

    for package in (item for language in known_languages() for item in language.packages):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    if device.startswith("cuda"):
        found |= (present() or CUDA).runtime_version()
        found["uuid"] = _identifier(torch.cuda.get_device_properties(device))
    return found


def _identifier(properties: Any) -> str:
    """Return a GPU's UUID, or its place on the bus in builds of torch without one."""
    found = getattr(properties, "uuid", None)
    return str(found) if found else f"pci-{properties.pci_domain_id}-{properties.pci_bus_id}-{properties.pci_device_id}"


def device_name(device: str) -> str:
    """Return 'NVIDIA H200', or the processor's name and the number of its available cores."""
    import torch

    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    cores = torch.get_num_threads()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            return f"{line.split(':', 1)[1].strip()}, {cores} cores"
    return f"{platform.machine()}, {cores} cores"
