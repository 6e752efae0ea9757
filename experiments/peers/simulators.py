"""Functions that designs of computer experiments are compared on: smooth, three to ten columns, mostly without noise.

Each is in closed form, with the ranges that its authors give; inputs are scaled to them from the unit cube. They were
used to choose between spread points and points by variance (`lobal.active.integrated_variance`).
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

Columns = list[Float[ndarray, " n"]]


def within(
    lower: Sequence[float], upper: Sequence[float], formula: Callable[[Columns], Float[ndarray, " n"]]
) -> Callable[[Float[ndarray, "n d"], int], Float[ndarray, " n"]]:
    """The function of inputs in the unit cube; it is the same for every seed."""

    def function(X: Float[ndarray, "n d"], _: int) -> Float[ndarray, " n"]:
        return np.asarray(formula(list((np.array(lower) + X * np.subtract(upper, lower)).T)))

    return function


def _borehole(columns: Columns) -> Float[ndarray, " n"]:
    """Flow of water through a borehole (Harper and Gupta 1983)."""
    r_w, r, T_u, H_u, T_l, H_l, L, K_w = columns
    log = np.log(r / r_w)
    return np.asarray(
        2.0 * np.pi * T_u * (H_u - H_l) / (log * (1.0 + 2.0 * L * T_u / (log * r_w**2 * K_w) + T_u / T_l))
    )


def _circuit(columns: Columns) -> Float[ndarray, " n"]:
    """Voltage of a push-pull circuit without output transformer (Ben-Ari and Steinberg 2007)."""
    R_b1, R_b2, R_f, R_c1, R_c2, beta = columns
    gain = beta * (R_c2 + 9.0)
    V_b = 12.0 * R_b2 / (R_b1 + R_b2)
    return np.asarray(((V_b + 0.74) * gain + 11.35 * R_f + 0.74 * R_f * gain / R_c1) / (gain + R_f))


def _piston(columns: Columns) -> Float[ndarray, " n"]:
    """Cycle time of a piston (Kenett and Zacks 1998)."""
    M, S, V_0, k, P_0, T_a, T_0 = columns
    A = P_0 * S + 19.62 * M - k * V_0 / S
    V = S / (2.0 * k) * (np.sqrt(A**2 + 4.0 * k * P_0 * V_0 * T_a / T_0) - A)
    return np.asarray(2.0 * np.pi * np.sqrt(M / (k + S**2 * P_0 * V_0 * T_a / (T_0 * V**2))))


def _wing(columns: Columns) -> Float[ndarray, " n"]:
    """Weight of the wing of a light aircraft (Forrester et al. 2008)."""
    S_w, W_fw, A, sweep, q, taper, thickness, N_z, W_dg, W_p = columns
    cosine = np.cos(np.deg2rad(sweep))
    return np.asarray(
        0.036 * S_w**0.758 * W_fw**0.0035 * (A / cosine**2) ** 0.6 * q**0.006 * taper**0.04
        * (100.0 * thickness / cosine) ** -0.3 * (N_z * W_dg) ** 0.49 + S_w * W_p
    )  # fmt: skip


def _ishigami(columns: Columns) -> Float[ndarray, " n"]:
    """Ishigami and Homma 1990."""
    a, b, c = columns
    return np.asarray(np.sin(a) + 7.0 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a))


def _friedman(columns: Columns) -> Float[ndarray, " n"]:
    """Friedman 1991."""
    a, b, c, d, e = columns
    return np.asarray(10.0 * np.sin(np.pi * a * b) + 20.0 * (c - 0.5) ** 2 + 10.0 * d + 5.0 * e)


def _robot(columns: Columns) -> Float[ndarray, " n"]:
    """Reach of a robot arm of four segments (An and Owen 2001)."""
    angles, lengths = np.cumsum(columns[:4], axis=0), np.array(columns[4:])
    return np.asarray(np.hypot((lengths * np.cos(angles)).sum(0), (lengths * np.sin(angles)).sum(0)))


borehole = within(
    [0.05, 100.0, 63070.0, 990.0, 63.1, 700.0, 1120.0, 9855.0],
    [0.15, 50000.0, 115600.0, 1110.0, 116.0, 820.0, 1680.0, 12045.0],
    _borehole,
)
circuit = within([50.0, 25.0, 0.5, 1.2, 0.25, 50.0], [150.0, 70.0, 3.0, 2.5, 1.2, 300.0], _circuit)
piston = within(
    [30.0, 0.005, 0.002, 1000.0, 90000.0, 290.0, 340.0], [60.0, 0.02, 0.01, 5000.0, 110000.0, 296.0, 360.0], _piston
)
wing = within(
    [150.0, 220.0, 6.0, -10.0, 16.0, 0.5, 0.08, 2.5, 1700.0, 0.025],
    [200.0, 300.0, 10.0, 10.0, 45.0, 1.0, 0.18, 6.0, 2500.0, 0.08],
    _wing,
)
ishigami = within([-np.pi] * 3, [np.pi] * 3, _ishigami)
friedman = within([0.0] * 5, [1.0] * 5, _friedman)
robot = within([0.0] * 8, [2.0 * np.pi] * 4 + [1.0] * 4, _robot)
