"""Which machines evaluate: `evaluator`, `gpu` and `ray_address`. The help imports this: nothing heavy here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ...entry_points import names_of

CPU, CUDA, AUTO = "cpu", "cuda", "auto"

GPUS = ("T4", "L4", "A10", "L40S", "A100", "A100-40GB", "A100-80GB", "RTX-PRO-6000", "H100", "H200", "B200", "B200+")
"""Modal's GPUs, as listed at https://modal.com/docs/guide/gpu."""
DEFAULT_GPU = "H100"
ALIASES = {"A10G": "A10"}
"""Other names of the same GPU."""
LOCAL, MODAL, RAY = "local", "modal", "ray"
GROUP = "kernelwright.evaluators"
"""The entry points by which packages of others name evaluators: `slurm = "package.module:slurm"`."""


def choices() -> Mapping[str, str]:
    """Return the values of `evaluator`, each with what it is."""
    built_in = {LOCAL: "this machine", MODAL: "containers on Modal", RAY: "the nodes of a Ray cluster"}
    return built_in | names_of(GROUP)


@dataclass(frozen=True)
class RemoteOptions:
    """Where to evaluate, if not on this machine."""

    where: str
    """A value of `evaluator`."""
    gpu: str = DEFAULT_GPU
    """The GPU on Modal."""
    ray_address: str | None = None
    """Address of the cluster; None for the one on this machine, or in RAY_ADDRESS."""
    device: str = AUTO
    """The kind of device that the user asked for: cpu, cuda or auto."""

    @classmethod
    def checked(cls, where: str, gpu: str | None, ray_address: str | None, device: str) -> Self | None:
        """Return the options of a command, None for this machine. Raises `OptionError` for contradictory values."""
        from ...core.devices import cards
        from ...core.errors import OptionError

        if where != LOCAL and where not in choices():
            raise OptionError(f"there is no evaluator {where!r}", f"use one of {', '.join(choices())}")
        if gpu is not None and where == LOCAL and device == CPU:
            if gpu.upper() not in cards():
                raise OptionError(f"`gpu` {gpu}: on a CPU launchers can see {', '.join(cards())}")
            return None
        if gpu is not None and where != MODAL:
            raise OptionError(
                f"`gpu` {gpu} is for `evaluator` modal, or with `device` cpu for Triton's interpreter; `device` cuda "
                "takes a GPU of this machine or of the Ray cluster"
            )
        if ray_address is not None and where != RAY:
            raise OptionError("`ray_address` is for `evaluator` ray")
        if where == LOCAL:
            return None
        if where == MODAL and device not in (AUTO, CUDA):
            raise OptionError(f"`device` {device} is of this machine; with `evaluator` modal, `gpu` names the GPU")
        if device not in (AUTO, CUDA, CPU):
            raise OptionError(f"`device` {device}: with `evaluator` {where} it is cpu, cuda or auto")
        chosen = (gpu or DEFAULT_GPU).upper().removesuffix("!")
        chosen = ALIASES.get(chosen, chosen)
        if chosen not in GPUS:
            raise OptionError(f"`gpu` {gpu}: Modal has {', '.join(GPUS)}")
        return cls(where, chosen, ray_address, device)
