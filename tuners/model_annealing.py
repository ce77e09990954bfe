"""Many walks at once over a space whose times a model predicts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core.encoded_space import EncodedSpace, Rows
from .observations import Floats

STEPS = 24


def anneal(
    encoded: EncodedSpace, predict: Callable[[Rows], Floats], starts: Rows, rng: np.random.Generator
) -> tuple[Rows, Floats]:
    """Walk from every start, with one random change of one parameter per step and decreasing temperature.

    Returns all members that were visited or considered, and their predicted times.
    """
    here = starts
    heights = predict(here)
    looked, predicted = [here], [heights]
    sizes = np.array([len(table) for table in encoded.encoded])
    heat = float(np.std(heights)) or 1.0
    for step in range(STEPS):
        there = here.copy()
        which = rng.integers(len(sizes), size=len(here))
        there[np.arange(len(here)), which] = (rng.random(len(here)) * sizes[which]).astype(np.int32)
        allowed = encoded.allowed(there)
        there[~allowed] = here[~allowed]
        found = predict(there)
        temperature = heat * (1 - step / STEPS) ** 2 + 1e-9
        accepted = rng.random(len(here)) < np.exp(np.minimum(0.0, (heights - found) / temperature))
        here, heights = np.where(accepted[:, None], there, here), np.where(accepted, found, heights)
        looked.append(there)
        predicted.append(found)
    rows, heights = np.concatenate(looked), np.concatenate(predicted)
    _, first = np.unique(encoded.keys(rows), return_index=True)
    return rows[first], heights[first]
