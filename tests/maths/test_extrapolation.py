"""Anderson acceleration of fixed-point iterations."""

from __future__ import annotations

import numpy as np

from palda.models.crowd.extrapolation import Extrapolation


def test_steps_of_a_linear_map_point_to_its_fixed_point() -> None:
    """With as many changes of the step as dimensions the point is almost exact; a plain step is far away."""
    rng = np.random.default_rng(0)
    values, vectors = np.array([0.9, 0.6, 0.2]), np.linalg.qr(rng.normal(size=(3, 3)))[0]
    matrix, fixed = vectors @ np.diag(values) @ vectors.T, rng.normal(size=3)
    steps, point = Extrapolation(), np.zeros(3)
    for _ in range(4):
        steps.add(point, fixed + matrix @ (point - fixed))
        point = steps.ends[-1]
    np.testing.assert_allclose(steps.point(np.array([1.0, 2.0, 3.0])), fixed, atol=0.01)
    assert np.abs(point - fixed).max() > 0.1


def test_points_after_refusals_come_near_to_the_last_step() -> None:
    steps = Extrapolation()
    steps.add(np.zeros(2), np.array([1.0, 0.0]))
    steps.add(np.array([1.0, 0.0]), np.array([1.9, 0.1]))
    one = np.ones(2)
    far = float(np.linalg.norm(steps.point(one) - steps.ends[-1]))
    for _ in range(5):
        steps.refuse()
    np.testing.assert_array_equal(steps.point(one), steps.ends[-1])
    steps.add(np.array([1.9, 0.1]), np.array([2.7, 0.3]))
    assert float(np.linalg.norm(steps.point(one) - steps.ends[-1])) < 0.01 * far


def test_a_state_that_no_longer_moves_stays() -> None:
    steps, still = Extrapolation(), np.array([1.0, -2.0])
    steps.add(still, still)
    steps.add(still, still)
    np.testing.assert_array_equal(steps.point(np.ones(2)), still)
