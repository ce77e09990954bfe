"""Creates the tuner of a search: one for each launch, if launches have their own parameters."""

from __future__ import annotations

from collections.abc import Sequence

from ...core import Config, Kernel, Profile, SearchSpace, Tuner
from ...core.parameter_roles import ParameterRoles
from .. import catalogue
from ..start import Warm
from .groups import launch_groups
from .tuner import ByLaunch


def tuner_for(
    kernel: Kernel,
    name: str,
    space: SearchSpace,
    seed: int = 0,
    warm: Warm = (),
    start: Sequence[Config] = (),
    profile: Profile | None = None,
    stride: int = 1,
) -> Tuner:
    """Create a tuner by its name, as `catalogue.create_tuner` does, that searches each launch separately if possible.

    This is possible if the kernel has groups of parameters with their own launches, and the tuner learns from results.
    """
    whole = catalogue.create_tuner(name, space, seed, warm, start, profile, stride)
    groups = launch_groups(kernel, space) if catalogue.adaptive(name) else []
    if not groups:
        return whole
    roles = ParameterRoles.of(space.names)
    tuners = []
    for number, group in enumerate(groups):
        own = list(dict.fromkeys(group.part(config) for config in start if {*group.space.names} <= {*config}))
        known = [(group.part(config), time) for config, time in warm]
        # Extents are known of one product, so only of a space that has one.
        its_profile = profile if roles.m in group.space.names else None
        tuners.append(catalogue.create_tuner(name, group.space, seed + number, known, own, its_profile, stride))
    first = next((config for config in start if config in space), space.default)
    return ByLaunch(space, [*zip(groups, tuners, strict=True)], whole, first)
