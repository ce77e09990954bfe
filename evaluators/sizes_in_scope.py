"""Which sizes are in scope where the constants of a user's launches stand, at each workload."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from ..core import Config, Evaluation, JointProblem, KernelError, TorchProblem
from ..core.environment import allowed_environment
from ..core.file_locks import temporary_folder
from ..core.user_package import CandidateText
from ..core.workload_rows import configs_by_workload, joined_keys
from ..corpus.functions.constant_places import ConstantPlace, PlaceKey, all_keys, places
from ..corpus.functions.running import confined_answer_of
from ..corpus.functions.size_choices import PlaceValue, SizeChoice, Sizes, tells_apart, values_at_places
from ..corpus.functions.translation import UserFunction
from .languages.base import support_of
from .sandbox.places import link_package

TIMEOUT_S = 300.0
"""Seconds for all workloads: the function runs up to its launches, and nothing is launched."""
_PROGRAM = """import sys
sys.path.insert(0, "package")
from kernelwright.evaluators.sizes_in_scope_program import main
main()
"""


class _SizesAnswer(BaseModel):
    """What the program says of a workload; it runs code of others, so it may say anything."""

    ended: bool
    sizes: dict[str, dict[str, int]]


_ANSWERS = TypeAdapter(dict[str, _SizesAnswer])


@dataclass(frozen=True)
class SizesInScope:
    """What was in scope at the places of constants, with a config for each workload."""

    function: UserFunction
    workloads: Mapping[str, Sizes]
    """The whole numbers among the sizes of each workload's inputs."""
    keys: tuple[PlaceKey, ...]
    at: Mapping[PlaceKey, Mapping[str, Sizes | None]]
    """The sizes at a place, by workload; None where that does not reach it."""

    @property
    def workload_keys(self) -> dict[str, str]:
        """A key for each workload, equal if there is no place with a size that tells two of them apart."""
        keys: dict[str, str] = {}
        for name in self.workloads:
            same = next((key for other, key in keys.items() if not self._apart(other, name)), name)
            keys[name] = same
        return keys

    def _apart(self, first: str, second: str, constant: str = "") -> bool:
        """Return whether one place of a constant, or of any, has another value at each of two workloads."""
        for key, scopes in self.at.items():
            if constant in ("", key.constant):
                one, other = scopes.get(first), scopes.get(second)
                if (one is None) != (other is None) or (one and other and tells_apart(one, other)):
                    return True
        return False

    def shared(self) -> set[str]:
        """Return the constants that have one value at all workloads, as far as the sizes in scope tell."""
        names, workloads = {key.constant for key in self.keys}, list(self.workloads)
        return {
            constant
            for constant in names
            if not any(self._apart(first, second, constant) for first in workloads for second in workloads)
        }

    def values(self, configs: Mapping[str, Config]) -> tuple[dict[PlaceKey, PlaceValue], list[str]]:
        """Return what each place becomes so that each workload has its config, and the constants that cannot."""
        starts = {row.constant: row.start for row in self.function.launched}
        wanted = {
            constant: {name: config.get(constant, start) for name, config in configs.items()}
            for constant, start in starts.items()
        }
        return values_at_places(self.keys, wanted, self.at, self.workloads, starts)


def size_keys(function: UserFunction, problem: TorchProblem) -> dict[str, str]:
    """Return a key for each workload, equal where no size beside a launch tells them apart; empty if all are equal."""
    several = isinstance(problem, JointProblem) and len(problem.members) > 1
    sizes = sizes_in_scope(function, problem) if several else None
    keys = sizes.workload_keys if sizes is not None else {}
    return keys if len(set(keys.values())) > 1 else {}


@dataclass(frozen=True)
class ValuesBySize:
    """What each place of the constants becomes."""

    by_place: Mapping[PlaceKey, PlaceValue] = field(default_factory=dict)
    said: str = ""
    """What is said of constants for which no size tells workloads apart."""
    configs: tuple[Config, ...] = ()
    """The configs that the workloads have then, the best one first."""

    def combined(self, function: UserFunction) -> list[Config]:
        """Return what an autotuner can meet beside them: constants of one, and what launches take from another."""
        launched = {row.constant for row in function.launched}
        taken = [{name: value for name, value in config.items() if name in launched} for config in self.configs]
        both = (Config({**config, **own}) for config in self.configs for own in taken)
        return [config for config in dict.fromkeys(both) if config not in self.configs]


def values_by_size(
    function: UserFunction,
    problem: TorchProblem,
    best: Evaluation,
    evaluations: Sequence[Evaluation],
    autotuner: Mapping[str, str] = MappingProxyType({}),
) -> ValuesBySize:
    """Return what each place of the constants becomes. Each workload gets the config that is the fastest there, if that
    is faster than the best by more than noise.

    Beside an autotuner workloads have other configs where its keys, `autotuner`, and a size tell them apart; where the
    keys are all equal, constants alone differ. Nothing for a function whose places all take one value.
    """
    starts = {row.constant: row.start for row in function.launched}
    # Of several places not all may run.
    several = any(len(row.sites) > 1 for row in function.launched)
    sizes = sizes_in_scope(function, problem) if len(evaluations) > 1 or several else None
    if sizes is None:
        return ValuesBySize()
    whole, shared, keys = Config(best.config), sizes.shared(), sizes.workload_keys
    if function.kernels:
        joined = joined_keys(keys, autotuner) if autotuner.keys() == keys.keys() else dict.fromkeys(keys, "")
        if len(set(joined.values())) > 1:
            keys = joined
        else:
            shared = shared | {constant for kernel in function.kernels for constant in kernel.constants.values()}
    free = configs_by_workload(best, evaluations, keys)
    alike = [item for item in evaluations if all(item.config.get(name) == whole.get(name) for name in shared)]
    configs = configs_by_workload(best, alike, keys)
    lacking = [name for name in starts if any(free[item].get(name) != configs[item].get(name) for item in free)]
    lacking = [name for name in lacking if name in shared]
    # What a launcher computes from one of its values has another value with these configs.
    after = sizes_in_scope(function, problem, configs)
    found, more = after.values(configs) if after is not None else ({}, [])
    if more:
        one = dict.fromkeys(configs, whole)
        after = sizes_in_scope(function, problem, one)
        found = after.values(one)[0] if after is not None else {}
    by_size = any(isinstance(value, SizeChoice) for value in found.values())
    changed = any(value != starts[key.constant] for key, value in found.items())
    names = ", ".join(dict.fromkeys([*lacking, *more]))
    said = f"{names}: other values are faster at some workloads, but no size in scope tells these apart"
    used = found if by_size or (changed and several) else {}
    return ValuesBySize(used, said if names else "", tuple(dict.fromkeys([whole, *configs.values()])))


def sizes_in_scope(
    function: UserFunction, problem: TorchProblem, configs: Mapping[str, Config] | None = None
) -> SizesInScope | None:
    """Call the function, which launches nothing, at each workload with the config of that; by default with its start.

    In a sandbox, as a candidate is: neither the package nor the problem need be the user's own work.
    Only the user's own code runs, with other constants. Returns None where the function does not run like that.
    """
    members = problem.members if isinstance(problem, JointProblem) and problem.members else {"": problem}
    constants = {row.constant for row in function.launched}
    if not constants:
        return None
    labels = tuple(module.label for module in function.package.modules)
    files = CandidateText.of(function.kernel.source, labels).files
    known, language = places(files, constants), function.kernel.language
    with temporary_folder("kernelwright-sizes-") as folder:
        link_package(folder / "package")
        (folder / "problem.py").write_text(problem.source)
        asked: dict[str, Any] = {}
        for number, (name, member) in enumerate(members.items()):
            candidate = folder / f"candidate_{number}.py"
            candidate.write_text(function.kernel.bind((configs or {}).get(name, {})).source)
            asked[name] = {"sizes": dict(member.sizes), "candidate": str(candidate)}
        task = {
            "package": function.package.options,
            "problem": str(folder / "problem.py"),
            "language": language.modules[0],
            "places": [_as_asked(place) for place in known],
            "workloads": asked,
        }
        environment = allowed_environment(os.environ, asked_by=function.kernel.source + problem.source)
        environment |= {**function.package.environment, **support_of(language).cpu_environment}
        given, shown = json.dumps(task), function.package.shown
        try:
            # Candidates' files stand in the folder of the process.
            answered = confined_answer_of(_PROGRAM, folder, shown, given, TIMEOUT_S, "no sizes", environment)
            said = _ANSWERS.validate_python(answered, strict=True)
        except (KernelError, ValidationError):
            return None
    if said.keys() != members.keys():
        return None
    keys = tuple(all_keys(files, constants))
    # What stands in no function counts at all workloads, and has no sizes beside it.
    at: dict[PlaceKey, dict[str, Sizes | None]] = {key: {name: {} for name in members} for key in keys}
    for number, place in enumerate(known):
        at[place.key] = {name: answer.sizes.get(str(number)) for name, answer in said.items()}
    if not all(answer.ended for answer in said.values()):
        # What was not reached before the function failed may be reached.
        unknown = {key.constant for key, scopes in at.items() if None in scopes.values()}
        at = {key: scopes for key, scopes in at.items() if key.constant not in unknown}
    sizes = {name: _whole_numbers(member.sizes) for name, member in members.items()}
    return SizesInScope(function, sizes, keys, at)


def _as_asked(place: ConstantPlace) -> dict[str, Any]:
    plain = {"function": place.function, "first": place.first, "last": place.last, "names": place.names}
    return {**plain, "label": place.key.label, "is_default": place.is_default}


def _whole_numbers(sizes: Mapping[str, Any]) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if type(size) is int}
