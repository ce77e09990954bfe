"""A search space in integer coordinates: a config is a row of indices into its parameters' values.

Searches that look at thousands of configs per step work on such rows with numpy; get one from `SearchSpace.encoded`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from .space import Config, SearchSpace, Value

Rows = npt.NDArray[np.int32]
"""Indices of values, of shape (configs, parameters)."""
Keys = npt.NDArray[np.uint64]

ENUMERATED = 2_000_000
"""Maximum number of rows to enumerate; a larger space is sampled."""
DRAWN = 8_000_000
"""Maximum number of rows drawn for one sample, unless the first draw takes more."""


class EncodedSpace:
    """The rows of a space: membership, neighbours, and conversion from and to configs."""

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._sizes = np.array([len(parameter.values) for parameter in space.parameters], dtype=np.int64)
        # Mixed radix. Beyond 2^64 configs the numbers wrap; two members of one search then share a key with a
        # probability of about its length squared over 2^64.
        strides = np.concatenate([np.cumprod(self._sizes[::-1].astype(np.uint64))[-2::-1], [np.uint64(1)]])
        self._strides = strides.astype(np.uint64)
        self._positions = [{value: i for i, value in enumerate(p.values)} for p in space.parameters]
        self._columns = [_column(parameter.values) for parameter in space.parameters]

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters, in the order of a row's columns."""
        return self._space.names

    def rows(self, configs: Iterable[Mapping[str, Value]]) -> Rows:
        """Return the rows of configs. All values must be values of their parameters."""
        names = self._space.names
        found = [[at[config[n]] for n, at in zip(names, self._positions, strict=True)] for config in configs]
        return np.array(found, dtype=np.int32).reshape(-1, len(names))

    def config(self, row: npt.NDArray[np.int32]) -> Config:
        """Return the config of a row."""
        from .space import Config

        values = ((p.name, p.values[i]) for p, i in zip(self._space.parameters, row.tolist(), strict=True))
        return Config(values)

    def keys(self, rows: Rows) -> Keys:
        """Return one key per row; different configs have different keys."""
        return np.asarray((rows.astype(np.uint64) * self._strides).sum(axis=1, dtype=np.uint64))

    def columns(self, rows: Rows) -> dict[str, npt.NDArray[np.generic]]:
        """Return the values of each parameter, one per row."""
        names = self._space.names
        return {name: column[rows[:, i]] for i, (name, column) in enumerate(zip(names, self._columns, strict=True))}

    def allowed(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows that are members of the space."""
        listed = self._listed
        if listed is not None:
            return np.isin(self.keys(rows), listed)
        return self._satisfied(rows, len(self._sizes))

    @cached_property
    def _listed(self) -> Keys | None:
        return None if self._space.listed is None else self.keys(self.rows(self._space.listed))

    def _satisfied(self, rows: Rows, bound: int, already: int = 0) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows that satisfy the constraints over the first `bound` parameters.

        Constraints over the first `already` parameters are not checked again.
        """
        names = self._space.names
        left = np.arange(len(rows))
        for check in self._space.checks:
            if check.names <= set(names[:bound]) and not (already and check.names <= set(names[:already])):
                # Only on the remaining rows: tight constraints leave few.
                values = {names[i]: self._columns[i][rows[left, i]] for i in range(bound) if names[i] in check.names}
                left = left[check.over(values, len(left))]
        mask = np.zeros(len(rows), dtype=bool)
        mask[left] = True
        return mask

    @cached_property
    def members(self) -> Rows | None:
        """Return all members in the order of iteration; None if they are too many to list."""
        if self._space.listed is not None:
            return self.rows(self._space.listed)
        rows = np.zeros((1, 0), dtype=np.int32)
        for i, size in enumerate(self._sizes.tolist()):
            if len(rows) * size > ENUMERATED:
                return None
            rows = np.column_stack([np.repeat(rows, size, axis=0), np.tile(np.arange(size, dtype=np.int32), len(rows))])
            rows = rows[self._satisfied(rows, i + 1, i)]
        return rows

    def sample(self, count: int, rng: np.random.Generator) -> Rows:
        """Return up to `count` different members, drawn uniformly, or all members if there are fewer.

        If random rows contain no member, a search finds up to a hundred, not uniformly. Raises `SpaceError` if it finds
        none within its limit.
        """
        if (members := self.members) is not None:
            return members if len(members) <= count else members[rng.choice(len(members), count, replace=False)]
        found = np.zeros((0, len(self._sizes)), dtype=np.int32)
        for _ in range(min(50, 1 + DRAWN // (4 * count))):
            drawn = (rng.random((4 * count, len(self._sizes))) * self._sizes).astype(np.int32)
            found = self.unique(np.concatenate([found, drawn[self.allowed(drawn)]]))
            if len(found) >= count or not len(found):
                break
        if not len(found):
            # Random rows do not satisfy constraints this tight.
            source = random.Random(int(rng.integers(2**32)))
            found = self.unique(self.rows(self._space.sample(source) for _ in range(min(count, 100))))
        return found[:count]

    def unique(self, rows: Rows) -> Rows:
        """Return the rows without repetitions, in the order of their first occurrence."""
        _, first = np.unique(self.keys(rows), return_index=True)
        return rows[np.sort(first)]

    def neighbours(self, row: npt.NDArray[np.int32]) -> Rows:
        """Return the members that differ from a row in the value of exactly one parameter."""
        found = []
        for i, size in enumerate(self._sizes.tolist()):
            variants = np.repeat(row[None, :], size, axis=0)
            variants[:, i] = np.arange(size)
            found.append(np.delete(variants, int(row[i]), axis=0))
        rows = np.concatenate(found)
        return rows[self.allowed(rows)]

    @cached_property
    def encoded(self) -> list[npt.NDArray[np.float64]]:
        """Per parameter, the encoding of each value for a cost model."""
        return [np.array([p.encode(value) for value in p.values]) for p in self._space.parameters]

    def encode(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Return the encodings of all values, shape (rows, parameters); see `Parameter.encode`."""
        return np.column_stack([table[rows[:, i]] for i, table in enumerate(self.encoded)])


def _column(values: Sequence[Value]) -> npt.NDArray[np.generic]:
    if any(isinstance(value, str) for value in values) or len({type(value) for value in values}) > 1:
        return np.array(values, dtype=object)
    return np.array(values)
