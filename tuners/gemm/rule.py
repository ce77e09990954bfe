"""A small decision tree that chooses among few configs by M, N and K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core import Config
from .cover import losses
from .shapes import Shape

DEPTH = 3
"""Questions until a config is chosen."""
Table = Mapping[Shape, Mapping[Config, float]]


@dataclass(frozen=True)
class Leaf:
    """The end of a branch."""

    config: Config

    def choose(self, m: int, n: int, k: int) -> Config:
        """Return the config."""
        return self.config

    def to_json(self) -> dict[str, Any]:
        """Return the rule as plain data."""
        return {"config": dict(self.config)}

    def lines(self, names: Mapping[Config, str], indent: str = "") -> list[str]:
        """Return the rule in words."""
        return [f"{indent}{names[self.config]}"]


@dataclass(frozen=True)
class Question:
    """Whether an extent is at most a bound."""

    extent: str
    bound: int
    yes: Rule
    no: Rule

    def choose(self, m: int, n: int, k: int) -> Config:
        """Return the config for a shape."""
        value = {"M": m, "N": n, "K": k}[self.extent]
        return (self.yes if value <= self.bound else self.no).choose(m, n, k)

    def to_json(self) -> dict[str, Any]:
        """Return the rule as plain data."""
        return {"if": f"{self.extent} <= {self.bound}", "then": self.yes.to_json(), "else": self.no.to_json()}

    def lines(self, names: Mapping[Config, str], indent: str = "") -> list[str]:
        """Return the rule in words."""
        return [
            f"{indent}if {self.extent} <= {self.bound}:",
            *self.yes.lines(names, f"{indent}  "),
            f"{indent}else:",
            *self.no.lines(names, f"{indent}  "),
        ]


Rule = Leaf | Question


def fit_rule(times: Table, configs: Sequence[Config]) -> Rule:
    """Return the tree that loses least, question by question; ties go to the fewer questions.

    Bounds are extents that were measured. A config that failed at a shape counts as 1000 times slower there.
    """
    lost = losses(times)
    table = {shape: {config: lost[shape].get(config, 7.0) for config in configs} for shape in times}
    return _fit(table, configs, DEPTH)


def _fit(table: Table, configs: Sequence[Config], depth: int) -> Rule:
    config, loss = _leaf(table, configs)
    best: tuple[float, str, int] | None = None
    for extent in ("M", "N", "K") if depth else ():
        values = sorted({_extent(shape, extent) for shape in table})
        for bound in values[:-1]:
            yes, no = _split(table, extent, bound)
            total = _leaf(yes, configs)[1] + _leaf(no, configs)[1]
            if best is None or total < best[0]:
                best = total, extent, bound
    if best is None or best[0] > loss - 1e-9:
        return Leaf(config)
    _, extent, bound = best
    yes, no = _split(table, extent, bound)
    return Question(extent, bound, _fit(yes, configs, depth - 1), _fit(no, configs, depth - 1))


def _leaf(table: Table, configs: Sequence[Config]) -> tuple[Config, float]:
    totals = {config: sum(row[config] for row in table.values()) for config in configs}
    config = min(configs, key=totals.__getitem__)
    return config, totals[config]


def _split(table: Table, extent: str, bound: int) -> tuple[Table, Table]:
    yes = {shape: row for shape, row in table.items() if _extent(shape, extent) <= bound}
    return yes, {shape: row for shape, row in table.items() if shape not in yes}


def _extent(shape: Shape, name: str) -> int:
    return {"M": shape.m, "N": shape.n, "K": shape.k}[name]
