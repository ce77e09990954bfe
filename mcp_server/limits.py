"""What one call may use: the server's limits, which a call can only lower."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import OptionError

FINISH_S = 120.0
"""Seconds after a call's own in which it ends what is under way: the last comparison, the files."""


@dataclass(frozen=True)
class ToolLimits:
    """The limits of the server."""

    trials: int
    seconds: float

    def trials_of(self, asked: int | None) -> int:
        """The evaluations of a call; raises `OptionError` for more than the server allows."""
        return self.trials if asked is None else int(_within("trials", asked, self.trials))

    def seconds_of(self, asked: float | None) -> float:
        """The seconds of a call; raises `OptionError` for more than the server allows."""
        return self.seconds if asked is None else _within("seconds", asked, self.seconds)


def _within(name: str, asked: float, most: float) -> float:
    if not 0 < asked <= most:
        raise OptionError(
            f"`{name}` must be above 0 and at most {most:g} on this server, not {asked:g}",
            f"its owner may start it with a larger max_{name}",
        )
    return asked
