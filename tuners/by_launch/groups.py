"""Groups of a kernel's parameters that can be searched independently: by the launches that they reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core import Config, Kernel, SearchSpace
from .flow import constants_by_launch


@dataclass(frozen=True)
class LaunchGroup:
    """Parameters that decide about some launches, and about no others."""

    space: SearchSpace
    """The space of these parameters, with all of the whole space's constraints that name them."""
    launches: frozenset[str]
    """Names of kernels."""

    def part(self, config: Config) -> Config:
        """Return the values of a config of the whole space that are this group's."""
        return Config((name, config[name]) for name in self.space.names)


def launch_groups(kernel: Kernel, space: SearchSpace) -> list[LaunchGroup]:
    """Return the groups of a space; none if its parameters cannot be assigned to launches.

    Parameters that reach one launch are in one group, and so are those that one constraint names. A parameter that
    reaches no launch may matter to all of them, and a list of configs has no parts.
    """
    if space.listed is not None:
        return []
    by_launch = constants_by_launch(kernel.source, space.names)
    reached = [(frozenset({launch}), names) for launch, names in by_launch.items() if names]
    linked = [(frozenset[str](), frozenset(check.names) & {*space.names}) for check in space.checks]
    joined: list[tuple[frozenset[str], frozenset[str]]] = []
    for launches, names in [*reached, *linked]:
        apart = []
        for its_launches, its_names in joined:
            if names & its_names:
                launches, names = launches | its_launches, names | its_names
            else:
                apart.append((its_launches, its_names))
        joined = [*apart, (launches, names)]
    joined = [(launches, names) for launches, names in joined if names]
    if not all(launches for launches, _ in joined) or frozenset().union(*(n for _, n in joined)) != {*space.names}:
        return []
    place = {name: number for number, name in enumerate(space.names)}
    joined.sort(key=lambda item: min(place[name] for name in item[1]))
    groups = [LaunchGroup(_part(space, names), launches) for launches, names in joined]
    return groups if sum(group.space.cardinality > 1 for group in groups) > 1 else []


def _part(space: SearchSpace, names: frozenset[str]) -> SearchSpace:
    parameters = [parameter for parameter in space.parameters if parameter.name in names]
    constraints = [check.text for check in space.checks if check.names and check.names <= names]
    return SearchSpace(parameters, constraints, sizes=space.sizes)


def described(groups: Sequence[LaunchGroup]) -> str:
    """Return the groups in words, such as 'gemm (6 parameters), softmax (2)'."""
    counts = [f"{len(group.space.names)}" for group in groups]
    counts[0] += " parameter" if counts[0] == "1" else " parameters"
    return ", ".join(
        f"{' and '.join(sorted(group.launches))} ({count})" for group, count in zip(groups, counts, strict=True)
    )
