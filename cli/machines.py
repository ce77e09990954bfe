"""Which machines evaluate: the options of commands that can use others than this one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ..evaluators.remote.options import RemoteOptions, Where
from .options import WHERE

if TYPE_CHECKING:
    from ..evaluators.remote.machines import Remote

EvaluatorOption = Annotated[
    Where,
    typer.Option(
        "--evaluator",
        help="Who evaluates: local (this machine), modal (containers on Modal), or ray (the nodes of a Ray cluster).",
        rich_help_panel=WHERE,
    ),
]
GpuOption = Annotated[
    str | None,
    typer.Option(
        help="Modal's GPU: T4, L4, A10, L40S, A100, H100, H200, B200 ...; H100 by default.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
RayAddressOption = Annotated[
    str | None,
    typer.Option(
        help="The Ray cluster's address; by default RAY_ADDRESS, or the cluster on this machine.",
        metavar="HOST:PORT",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]


@dataclass(frozen=True)
class Machines:
    """The values of the options."""

    where: Where = Where.LOCAL
    gpu: str | None = None
    ray_address: str | None = None

    def remote(self, device: str) -> RemoteOptions | None:
        """Checked; None for this machine. Raises `OptionError` for what does not go together."""
        return RemoteOptions.checked(self.where, self.gpu, self.ray_address, device)

    @contextlib.contextmanager
    def joined(self, device: str) -> Iterator[Remote | None]:
        """The machines, until the command ends; None for this one. Raises `DeviceError` when they cannot be used."""
        options = self.remote(device)
        if options is None:
            yield None
            return
        from ..evaluators.remote.machines import Remote

        with Remote(options) as remote:
            remote.check()
            yield remote


HERE = Machines()
