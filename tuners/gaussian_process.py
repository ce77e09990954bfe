"""Gaussian-process regression with one length scale per feature (Rasmussen, Williams, 2006, chapters 2 and 5)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .observations import Floats

ITERATIONS = 20
"""Iterations of the optimizer over length scales and noise; more would overfit the few points."""
SCALE_PRIOR = (0.7, 1.0)
"""Mean and deviation of the logarithm of a length scale, in standard deviations of its feature."""
NOISE_PRIOR = (math.log(0.02), 1.0)
"""Mean and deviation of the logarithm of the noise variance, in units of the targets' variance."""
BOUNDS = ((-2.5, 3.5), (math.log(1e-3), math.log(0.5)))


class GaussianProcess:
    """Matern 5/2 kernel; amplitude profiled out, length scales and noise by their posterior mode.

    `features` have shape (points, columns) and are standardized by the caller. Pass `scales` of an earlier fit to
    skip the optimization.
    """

    def __init__(self, features: Floats, targets: Floats, scales: Floats | None = None) -> None:
        self._features = features
        self._mean = float(targets.mean())
        self._deviation = float(targets.std()) or 1.0
        self._targets = (targets - self._mean) / self._deviation
        self.scales = self._optimize() if scales is None else scales
        """Logarithms of the length scales, and last of the noise."""
        kernel, _ = _matern(features, features, np.exp(self.scales[:-1]))
        noisy = kernel + np.eye(len(targets)) * math.exp(self.scales[-1])
        self._inverse = np.linalg.inv(noisy)
        self._weights = self._inverse @ self._targets
        self._amplitude = max(float(self._targets @ self._weights) / len(targets), 1e-12)

    def __call__(self, features: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the prediction, one per row."""
        kernel, _ = _matern(features, self._features, np.exp(self.scales[:-1]))
        mean = kernel @ self._weights
        left = np.maximum(1.0 - ((kernel @ self._inverse) * kernel).sum(axis=1), 1e-9)
        deviation = np.sqrt(self._amplitude * left)
        return mean * self._deviation + self._mean, deviation * self._deviation

    def _optimize(self) -> Floats:
        from scipy.optimize import minimize

        columns = self._features.shape[1]
        first = np.array([0.0] * columns + [math.log(0.05)])
        bounds = [BOUNDS[0]] * columns + [BOUNDS[1]]
        found = minimize(self._loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": ITERATIONS})
        return np.asarray(found.x, dtype=np.float64)

    def _loss(self, scales: Floats) -> tuple[float, Floats]:
        """Return the negative log posterior of scales and noise, and its gradient."""
        lengths, noise, count = np.exp(scales[:-1]), math.exp(scales[-1]), len(self._targets)
        kernel, distance = _matern(self._features, self._features, lengths)
        try:
            factor = np.linalg.cholesky(kernel + np.eye(count) * noise)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(scales)
        half = np.linalg.inv(factor)
        inverse = half.T @ half
        weights = inverse @ self._targets
        amplitude = max(float(self._targets @ weights) / count, 1e-12)  # all targets may be equal
        loss = 0.5 * count * math.log(amplitude) + float(np.log(np.diag(factor)).sum())
        sensitivity = inverse - np.outer(weights, weights) / amplitude
        slope = sensitivity * (5 / 3) * (1 + distance) * np.exp(-distance)
        scaled = self._features / lengths
        # sum over pairs of slope * (difference in one column)^2, for all columns at once
        squares = scaled * scaled
        gradient = slope.sum(axis=1) @ squares - np.einsum("ij,jc,ic->c", slope, scaled, scaled, optimize=True)
        gradient = np.append(gradient, 0.5 * float(np.trace(sensitivity)) * noise)
        center, width = SCALE_PRIOR
        off = (scales[:-1] - center) / width
        off_noise = (scales[-1] - NOISE_PRIOR[0]) / NOISE_PRIOR[1]
        loss += 0.5 * float(off @ off) + 0.5 * off_noise**2
        gradient[:-1] += off / width
        gradient[-1] += off_noise / NOISE_PRIOR[1]
        return loss, gradient


def _matern(left: Floats, right: Floats, lengths: Floats) -> tuple[Floats, Any]:
    """Return the kernel between two sets of rows, and the distances (times root 5) that it is a function of."""
    a, b = left / lengths, right / lengths
    squared = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None] - 2 * a @ b.T
    distance = np.sqrt(5 * np.maximum(squared, 1e-12))
    return (1 + distance + distance * distance / 3) * np.exp(-distance), distance


def log_expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the logarithm of the expected improvement below `best` (Jones, Schonlau, Welch, 1998)."""
    from scipy.special import log_ndtr

    z = (best - mean) / deviation
    density = -0.5 * z * z - 0.5 * math.log(2 * math.pi)
    # Far below zero z * cdf + pdf loses all digits; it is about pdf / z^2 there.
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.log(np.maximum(z * np.exp(log_ndtr(z)) + np.exp(density), 1e-300))
    far = density - 2 * np.log(np.maximum(-z, 1.0))
    return np.asarray(np.log(deviation) + np.where(z < -8, far, near))
