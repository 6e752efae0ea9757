"""The cases: fits and campaigns on generated data, options by the names of version 0.1.0."""

import math
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

Array: TypeAlias = Float[ndarray, "..."]


@final
@dataclass(frozen=True, kw_only=True)
class Fit:
    """A model to fit; options have the names of version 0.1.0."""

    d: int  # input columns
    n: int  # labels
    options: dict[str, Any]
    noise: float = 0.1  # standard deviation of the labels' noise
    is_rough: bool = False  # the target is a path of Brownian motion
    is_weighted: bool = False  # sample_weight and inducing_weight are given
    n_validation: int = 0  # labels given as `validation`


@final
@dataclass(frozen=True, kw_only=True)
class MolecularCampaign:
    """A campaign over configurations of a molecule.

    The plan is a list of moves: ("ask", b); ("tell", b), labels of the b points that have been pending longest;
    ("add", b), labels of b points that were not asked for. Intrinsic dimension and width of the density are those that
    were version 0.1.0's defaults.
    """

    atoms: str  # one of `MOLECULES`
    n_pool: int
    plan: tuple[tuple[str, int], ...]
    test_density: str
    settings: dict[str, Any]
    field: dict[str, Any]  # options of the force field
    n_gate_inducing: int
    dimension: float = 2.0
    density_width: float = 0.03


Case: TypeAlias = Fit | MolecularCampaign


def noise_at(X: Array) -> Array:
    """A noise variance that is known as a function of the inputs."""
    return np.asarray(0.01 + 0.03 * X[:, 0])


SPARSE: dict[str, Any] = {"experts": "sparse", "n_inducing": 48, "n_gate_inducing": 24}
ADAM: dict[str, Any] = {"engine": "adam", "n_inducing": 40, "n_gate_inducing": 20, "max_epochs": 60, "patience": 6}
# More noise than by default, 1e-9, and as many configurations for Sigma_E as amplify rounding least.
FIELD: dict[str, Any] = {"inducing": 8, "folds": 2, "bandwidths": (0.0625, 0.125, 0.25, 0.5, 1.0), "noise": 1e-5}

CASES: dict[str, Case] = {
    "fit_analytic_default_1d": Fit(d=1, n=250, options={}),
    "fit_analytic_sparse_1d": Fit(d=1, n=300, options=SPARSE),
    "fit_analytic_exact_2d": Fit(d=2, n=200, options={"experts": "exact", "n_gate_inducing": 40}),
    "fit_analytic_noise_estimated_2d": Fit(d=2, n=300, noise=0.3, options={**SPARSE, "noise": "estimate"}),
    "fit_analytic_noise_given_matern52_5d": Fit(d=5, n=300, options={"noise": 0.01, "kernel": "matern52"}),
    "fit_analytic_noise_function_mse_exchange_2d": Fit(
        d=2, n=200, options={**SPARSE, "noise": noise_at, "objective": "mse", "exchange": True}
    ),
    "fit_analytic_smoothness_estimated_1d": Fit(
        d=1, n=200, noise=0.01, is_rough=True, options={"experts": "exact", "noise": 1e-4, "smoothness": "estimate"}
    ),
    "fit_analytic_smoothness_8d": Fit(d=8, n=500, options={"smoothness": 2.0}),
    "fit_analytic_isotropic_smoothness_3d": Fit(d=3, n=250, options={"anisotropic": False, "smoothness": 1.5}),
    "fit_analytic_weights_3d": Fit(d=3, n=250, is_weighted=True, options={**SPARSE, "weighted": True}),
    "fit_analytic_given_widths_2d": Fit(
        d=2,
        n=200,
        options={
            **SPARSE,
            "bandwidths": [0.25, 0.5, 1.0, 2.0],
            "shared_bandwidth": [0.3, 0.6],
            "gate_bandwidth": 0.8,
            "gate_scale": 3.0,
            "penalty": 0.1,
            "tuning": "off",
        },
    ),
    "fit_analytic_tuning_full_2d": Fit(d=2, n=100, options={**SPARSE, "tuning": "full"}),
    # Under the other kernels, one-dimensional inputs close to each other make Adam amplify rounding to 1e-6.
    "fit_adam_sparse_matern32_1d": Fit(d=1, n=300, options={**ADAM, "kernel": "matern32"}),
    "fit_adam_diagonal_weights_3d": Fit(
        d=3, n=300, is_weighted=True, options={**ADAM, "sparsity": 3, "covariance": "diagonal"}
    ),
    "fit_adam_exact_2d": Fit(
        d=2, n=160, n_validation=40, options={**ADAM, "n_inducing": None, "experts": "exact", "gate_fraction": 0.2}
    ),
    "fit_adam_exchange_matern52_2d": Fit(
        d=2, n=200, options={**ADAM, "kernel": "matern52", "exchange": True, "noise": 0.01, "objective": "mse"}
    ),
    "fit_adam_full_covariance_no_refit_2d": Fit(
        d=2, n=200, options={**ADAM, "covariance": "full", "refit": False, "anisotropic": False, "batch_size": 40}
    ),
    "fit_adam_tuning_full_1d": Fit(
        d=1, n=120, options={**ADAM, "n_inducing": 16, "n_gate_inducing": 10, "max_epochs": 8, "tuning": "full"}
    ),
    "campaign_molecules_pool": MolecularCampaign(
        atoms="water",
        n_pool=150,
        plan=(("ask", 20), ("tell", 20), ("ask", 12), ("tell", 8), ("ask", 12), ("tell", 16)),
        test_density="pool",
        settings={},
        field=FIELD,
        n_gate_inducing=12,
    ),
    "campaign_molecules_uniform": MolecularCampaign(
        atoms="peroxide",
        n_pool=120,
        plan=(("ask", 20), ("tell", 20), ("add", 11), ("ask", 12), ("tell", 12), ("ask", 12), ("tell", 12)),
        test_density="uniform",
        settings={"smoothness": 3.0, "exploration": 0.2, "seed": 5},
        field={**FIELD, "anisotropic": False, "sparse": 20, "noise": 1e-6},
        n_gate_inducing=12,
    ),
}


def target(X: Array) -> Array:
    """Fast waves where the first column is small, slow ones where it is large; further columns add one wave each."""
    x, d = X[:, 0], X.shape[1]
    waves = np.sqrt(x * (1.0 - x)) * np.sin(2.1 * np.pi / (x + (0.1 if d == 1 else 0.4)))
    return np.asarray(2.0 * waves + np.cos((2.0 + 5.0 * np.exp(-5.0 * x[:, None])) * X[:, 1:]).sum(1) / math.sqrt(d))


def rough_target(X: Array) -> Array:
    """A path of Brownian motion along the first column, by its Karhunen-Loeve expansion."""
    frequencies = np.pi * (np.arange(2000) + 0.5)
    weights = np.random.default_rng(0).standard_normal(2000) * math.sqrt(2.0) / frequencies
    return np.asarray(np.sin(X[:, :1] * frequencies) @ weights)


def inputs_of(d: int, n: int, seed: int) -> Float[ndarray, "n d"]:
    """Inputs in the unit cube, denser where the last column is small."""
    X = np.random.default_rng([d, n, seed]).random((n, d))
    return np.concatenate([X[:, :-1], X[:, -1:] ** 1.5], axis=1)


def labels_of(case: Fit, X: Float[ndarray, "n d"], seed: int) -> Float[ndarray, " n"]:
    """Labels with noise that grows along the first column."""
    errors = case.noise * np.random.default_rng([len(X), seed]).standard_normal(len(X))
    labels = rough_target(X) + errors if case.is_rough else target(X) + (0.2 + 1.6 * X[:, 0]) * errors
    return np.asarray(labels)


@final
@dataclass(frozen=True, kw_only=True)
class Molecule:
    """Atoms whose pairs attract each other by Morse potentials, D (1 - exp(-a (r - r_0)))^2."""

    species: tuple[int, ...]
    rest: tuple[tuple[float, float, float], ...]  # Angstrom
    depth: tuple[float, ...]  # eV; one for every pair, (0, 1), (0, 2), ..., (1, 2), ...
    rate: tuple[float, ...]

    def positions(self, n: int, seed: int) -> Float[ndarray, "n N 3"]:
        """Configurations about rest; some have moved far and some little, so that their density varies."""
        rng = np.random.default_rng([len(self.species), n, seed])
        far = rng.uniform(0.02, 0.2, (n, 1, 1))
        return np.asarray(self.rest) + far * rng.standard_normal((n, len(self.species), 3))

    def labels(self, R: Float[ndarray, "n N 3"]) -> tuple[Float[ndarray, " n"], Float[ndarray, "n N 3"]]:
        """Energies and forces."""
        first, second = np.triu_indices(len(self.species), 1)
        depth, rate, rest = np.array(self.depth), np.array(self.rate), np.asarray(self.rest)
        r_0 = np.linalg.norm(rest[first] - rest[second], axis=-1)
        apart = R[:, first] - R[:, second]
        r = np.linalg.norm(apart, axis=-1)
        decay = np.exp(-rate * (r - r_0))
        slope = 2.0 * depth * rate * decay * (1.0 - decay)  # of the energy in r
        forces = np.zeros_like(R)
        for pair, (i, j) in enumerate(zip(first, second, strict=True)):
            pull = (slope[:, pair] / r[:, pair])[:, None] * apart[:, pair]
            forces[:, i] -= pull
            forces[:, j] += pull
        return -500.0 + (depth * np.square(1.0 - decay)).sum(1), forces


MOLECULES = {
    "water": Molecule(
        species=(8, 1, 1),
        rest=((0.0, 0.0, 0.0), (0.8, 0.6, 0.0), (-0.8, 0.6, 0.0)),
        depth=(4.0, 4.0, 1.0),
        rate=(2.0, 2.0, 1.5),
    ),
    "peroxide": Molecule(
        species=(8, 8, 1, 1),
        rest=((0.7, 0.0, 0.0), (-0.7, 0.0, 0.0), (0.9, 0.9, 0.3), (-0.9, 0.9, -0.3)),
        depth=(3.0, 4.0, 1.0, 1.0, 4.0, 0.5),
        rate=(2.0, 2.0, 1.0, 1.0, 2.0, 1.0),
    ),
}
