"""Which fp32 operations PyTorch may compute in TF32, for the reference and for the kernels that are timed with it.

The switches are set around each group of calls and cost nothing: cuDNN keeps its plans per switch. `torch.compile`
guards on the switch of products only, and reads that of convolutions both when it compiles and when it runs: a
compiled reference needs the same switches at both times.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..settings import Precision

_RECURRENT = ("rnn", "lstm", "gru")
"""Parts of the names of operators that cuDNN computes, or products do."""


@dataclass(frozen=True)
class Tf32:
    """The switches; both off by default."""

    products: bool = False
    convolutions: bool = False

    @classmethod
    def now(cls) -> Tf32:
        """Return the switches as they are. Torch refuses to, once something has used the newer `fp32_precision`."""
        import torch

        return cls(torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)

    def set(self) -> None:
        """Set torch's switches."""
        import torch

        torch.backends.cuda.matmul.allow_tf32 = self.products
        torch.backends.cudnn.allow_tf32 = self.convolutions

    def changes(self, operator: str, family: str) -> bool:
        """Return whether an operator of this name and family may compute fp32 in TF32."""
        recurrent = any(part in operator for part in _RECURRENT)
        if self.products and (recurrent or family in ("products", "attention")):
            return True
        return self.convolutions and (recurrent or family == "convolutions")

    def __str__(self) -> str:
        on = [name for name in ("products", "convolutions") if getattr(self, name)]
        return " and ".join(on) or "off"


STRICT = Tf32()
"""All of fp32 in fp32."""


@dataclass(frozen=True)
class Arithmetic:
    """How the reference computes, and how PyTorch does by default."""

    main: Tf32 = STRICT
    default: Tf32 = STRICT
    precision: Precision = Precision.FP32

    @classmethod
    def of(cls, options: dict[str, Any]) -> Arithmetic:
        """Read the options of a worker; to be called before the problem's file runs, which may set switches.

        PyTorch's defaults are the switches as they are now, where the options say that they make a difference.
        """
        precision = Precision(options.get("precision", Precision.FP32))
        default = Tf32.now() if options.get("defaults_differ") else STRICT
        return cls(default if precision is Precision.DEFAULT else STRICT, default, precision)

    @contextlib.contextmanager
    def switched(self, switches: Tf32) -> Iterator[None]:
        """Compute with other switches inside of the context."""
        switches.set()
        try:
            yield
        finally:
            self.main.set()


def defaults_differ(device: str) -> bool:
    """Return whether PyTorch's defaults can compute fp32 in less than fp32 on the device: TF32 is for GPUs only."""
    return device != "cpu"
