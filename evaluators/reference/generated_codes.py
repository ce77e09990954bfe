"""Code that torch's compiler generated before: generating it takes 5 to 60 s, some of them with the device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...core import TorchProblem
from ...core.cache import Cache
from ...core.generated_code import GeneratedCode
from ...core.text import digest_of
from ..settings import Lowering
from .baselines import baseline_key

OPTIONS = "generated code 3"
VERSIONS: Mapping[Lowering, str | None] = {
    Lowering.TEMPLATES: None,
    Lowering.LIBRARY: "library 5",
    Lowering.LIBRARY_AS_GIVEN: "library as given 2",
    Lowering.AS_COMPILED: "as compiled 1",
}
"""Version of such code. Each counts up when `inductor` generates something else."""


class GeneratedCodes:
    """A file per problem, device and version in `folder`/generated; empty without a folder."""

    def __init__(self, folder: Path | None, lowering: Lowering = Lowering.TEMPLATES) -> None:
        self._folder = folder / "generated" if folder else None
        self._options = ", ".join(filter(None, (OPTIONS, VERSIONS[lowering])))

    def get(self, problem: TorchProblem, environment: Mapping[str, str]) -> GeneratedCode | None:
        """Return the code, or None."""
        key = baseline_key(self._options, problem, environment, None)
        return self._file(key).get(key)

    def put(self, problem: TorchProblem, environment: Mapping[str, str], code: GeneratedCode) -> None:
        """Store a code; a write error is ignored."""
        key = baseline_key(self._options, problem, environment, None)
        self._file(key).put(key, code)

    def _file(self, key: str) -> Cache[GeneratedCode]:
        return Cache(self._folder / f"{digest_of(key)}.json" if self._folder else None, GeneratedCode)
