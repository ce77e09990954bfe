"""What every evaluator promises: the published suites."""

from __future__ import annotations

import pytest
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.multi_device import MultiDeviceEvaluator
from kernelwright.testing import EvaluatorSuite, JudgeSuite, ScreenerSuite
from kernelwright.testing.kept import kept

from ..conftest import FAST


class TestLocal(ScreenerSuite, JudgeSuite):
    @pytest.fixture
    def evaluator(self, evaluator: LocalEvaluator) -> LocalEvaluator:
        return evaluator


class TestMultiDevice(EvaluatorSuite):
    @pytest.fixture
    def evaluator(self, request: pytest.FixtureRequest) -> MultiDeviceEvaluator:
        return kept(request, MultiDeviceEvaluator([LocalEvaluator(settings=FAST) for _ in range(2)]))
