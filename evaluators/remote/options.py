"""Which machines evaluate: `evaluator`, `gpu` and `ray_address`. The help imports this: nothing heavy here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

CPU, CUDA, AUTO = "cpu", "cuda", "auto"

GPUS = ("T4", "L4", "A10", "L40S", "A100", "A100-40GB", "A100-80GB", "RTX-PRO-6000", "H100", "H200", "B200", "B200+")
"""Modal's GPUs, as listed at https://modal.com/docs/guide/gpu."""
DEFAULT_GPU = "H100"
ALIASES = {"A10G": "A10"}
"""Other names of the same GPU."""


class Where(StrEnum):
    """The values of `evaluator`."""

    LOCAL = "local"
    MODAL = "modal"
    RAY = "ray"


@dataclass(frozen=True)
class RemoteOptions:
    """Where to evaluate, if not on this machine."""

    where: Where
    gpu: str = DEFAULT_GPU
    """The GPU on Modal."""
    ray_address: str | None = None
    """Address of the cluster; None for the one on this machine, or in RAY_ADDRESS."""
    device: str = AUTO

    @classmethod
    def checked(cls, where: Where, gpu: str | None, ray_address: str | None, device: str) -> Self | None:
        """Return the options of a command, None for this machine. Raises `OptionError` for contradictory values."""
        from ...core.errors import OptionError

        if gpu is not None and where is not Where.MODAL:
            raise OptionError(
                f"`gpu` {gpu} is for `evaluator` modal; `device` cuda takes a GPU of this machine or of the Ray cluster"
            )
        if ray_address is not None and where is not Where.RAY:
            raise OptionError("`ray_address` is for `evaluator` ray")
        if where is Where.LOCAL:
            return None
        if where is Where.MODAL and device not in (AUTO, CUDA):
            raise OptionError(f"`device` {device} is of this machine; with `evaluator` modal, `gpu` names the GPU")
        if device not in (AUTO, CUDA, CPU):
            raise OptionError(f"`device` {device}: with `evaluator` ray it is cpu, cuda or auto")
        chosen = (gpu or DEFAULT_GPU).upper().removesuffix("!")
        chosen = ALIASES.get(chosen, chosen)
        if chosen not in GPUS:
            raise OptionError(f"`gpu` {gpu}: Modal has {', '.join(GPUS)}")
        return cls(where, chosen, ray_address, device)
