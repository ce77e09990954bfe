"""One evaluator for all tests of functions: with launch plans, warm, and without a sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import AllowTorch

from ...conftest import PROVING

SETTINGS = replace(PROVING, allow_torch=AllowTorch.GLUE)


@pytest.fixture(scope="package")
def evaluator() -> Iterator[LocalEvaluator]:
    with LocalEvaluator("cpu", SETTINGS) as evaluator:
        yield evaluator
