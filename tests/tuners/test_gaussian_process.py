"""Regression whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest
from kernelwright.tuners.gaussian_process import BOUNDS, GaussianProcess, log_expected_improvement
from kernelwright.tuners.observations import Floats
from scipy.optimize import approx_fprime
from scipy.stats import norm

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(30, 3))


def truth(points: Floats) -> Floats:
    return np.asarray(np.sin(points[:, 0]) + 0.5 * points[:, 1] ** 2 + 3.0)


TIMES = truth(POINTS)


def test_interpolates() -> None:
    mean, deviation = GaussianProcess(POINTS, TIMES)(POINTS)
    assert mean == pytest.approx(TIMES, abs=0.1)
    assert (deviation < 0.3 * TIMES.std()).all()


def test_predicts_between_the_points() -> None:
    between = RNG.uniform(-1, 1, size=(50, 3))
    mean, _ = GaussianProcess(POINTS, TIMES)(between)
    error = mean - truth(between)
    assert np.sqrt(np.mean(error**2)) < 0.4 * truth(between).std()


def test_the_deviation_grows_away_from_the_data() -> None:
    process = GaussianProcess(POINTS, TIMES)
    away = np.outer([0.0, 2.0, 5.0, 50.0], [1.0, 1.0, 1.0])
    mean, deviation = process(away)
    assert (np.diff(deviation) > 0).all()
    assert mean[-1] == pytest.approx(TIMES.mean())


def test_a_column_without_effect_gets_a_long_scale() -> None:
    scales = GaussianProcess(POINTS, TIMES).scales
    assert scales.shape == (4,)
    assert scales[2] > max(scales[0], scales[1])
    assert (scales[:-1] >= BOUNDS[0][0]).all() and (scales[:-1] <= BOUNDS[0][1]).all()


def test_given_scales_are_kept() -> None:
    scales = np.array([0.1, 0.2, 0.3, -3.0])
    assert GaussianProcess(POINTS, TIMES, scales).scales is scales


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_that_of_the_loss(seed: int) -> None:
    process = GaussianProcess(POINTS, TIMES, np.zeros(4))
    at = np.random.default_rng(seed).normal(0, 0.5, size=4) - [0, 0, 0, 2]
    _, gradient = process._loss(at)
    finite = approx_fprime(at, lambda scales: process._loss(scales)[0], 1e-6)
    assert gradient == pytest.approx(finite, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("points", [POINTS[:1], POINTS[:2], np.repeat(POINTS[:1], 5, axis=0)])
@pytest.mark.parametrize("same", [True, False])
def test_few_points_equal_points_and_equal_times(points: Floats, same: bool) -> None:
    times = np.ones(len(points)) if same else np.arange(len(points), dtype=float)
    mean, deviation = GaussianProcess(points, times)(POINTS)
    assert np.isfinite(mean).all()
    assert np.isfinite(deviation).all() and (deviation > 0).all()


def test_expected_improvement_is_the_closed_form() -> None:
    mean, deviation, best = np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, 0.7]), 1.5
    z = (best - mean) / deviation
    expected = deviation * (z * norm.cdf(z) + norm.pdf(z))
    assert log_expected_improvement(mean, deviation, best) == pytest.approx(np.log(expected), rel=1e-6)


def test_its_logarithm_is_finite_and_falls_far_away() -> None:
    mean = np.concatenate([np.linspace(0, 60, 601), [1e3, 1e6]])
    found = log_expected_improvement(mean, np.ones(len(mean)), 0.0)
    assert np.isfinite(found).all()
    assert (np.diff(found) < 0).all()
    assert np.isfinite(log_expected_improvement(-mean, np.ones(len(mean)), 0.0)).all()
