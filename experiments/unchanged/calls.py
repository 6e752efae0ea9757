"""The cases run by the present lobal: what it predicts and which points it chooses."""

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

import lobal
from experiments.unchanged.cases import (
    MOLECULES,
    Case,
    Fit,
    MolecularCampaign,
    Molecule,
    inputs_of,
    labels_of,
)
from lobal.mixture.options import from_flat_options
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.geometry.trajectory import Trajectory
from lobal.molecules.space import MoleculePool
from lobal.molecules.surrogate import ForceFieldSurrogate

N_TEST = 40  # inputs at which models are compared


class Quantity(NamedTuple):
    """Numbers in a flat list, and the unit of their differences; none for whole numbers, which have to be equal."""

    values: list[float] | list[int]
    scale: float | None

    @staticmethod
    def of(values: Any, scale: float) -> "Quantity":  # noqa: ANN401 - whatever NumPy makes an array of
        """Floats, with a scale."""
        return Quantity(np.asarray(values, dtype=np.float64).ravel().tolist(), float(scale))

    @staticmethod
    def relative(values: Any) -> "Quantity":  # noqa: ANN401 - as above
        """Floats, measured by the largest of them."""
        return Quantity.of(values, max(np.abs(np.asarray(values, dtype=np.float64)).max(initial=0.0), 1e-300))

    @staticmethod
    def exact(values: Any) -> "Quantity":  # noqa: ANN401 - as above
        """Whole numbers."""
        return Quantity(np.asarray(values, dtype=np.int64).ravel().tolist(), None)

    def difference(self, other: "Quantity") -> float:
        """The largest difference in units of this quantity's scale; infinite where lengths or whole numbers differ."""
        one, two = np.asarray(self.values), np.asarray(other.values)
        if one.shape != two.shape:
            return math.inf
        if self.scale is None:
            return 0.0 if np.array_equal(one, two) else math.inf
        differences = np.abs(np.where(one == two, 0.0, one - two)) / self.scale
        return float(np.nan_to_num(differences, nan=math.inf).max(initial=0.0))


Result: TypeAlias = dict[str, Quantity]


def run_case(case: Case) -> Result:
    """The case's numbers, by name."""
    match case:
        case Fit():
            return fit_result(case)
        case MolecularCampaign():
            return run_molecular_campaign(case)


def model_from(options: dict[str, Any], d: int) -> lobal.MixtureRegressor:
    """An unfitted model for d columns with the options of a case, which have the names of version 0.1.0.

    That version placed inducing points in several columns by k-means; the present default was changed on purpose.
    """
    given = {"random_state": 0, "device": "cpu", **options}
    return lobal.MixtureRegressor(**from_flat_options(given), inducing="auto" if d == 1 else "kmeans")


def fit_result(case: Fit) -> Result:
    """What a fitted model says at test inputs and about itself."""
    X = inputs_of(case.d, case.n, seed=0)
    y = labels_of(case, X, seed=0)
    more: dict[str, Any] = {}
    if case.is_weighted:
        more |= {"sample_weight": 0.5 + X[:, 0], "inducing_weight": 1.5 - X[:, 0]}
    if case.n_validation:
        X_validation = inputs_of(case.d, case.n_validation, seed=2)
        more["validation"] = X_validation, labels_of(case, X_validation, seed=2)
    model = model_from(case.options, case.d).fit(X, y, **more)
    at, unit = inputs_of(case.d, N_TEST, seed=1), y.std()
    result = predictions(model, at, unit) | {
        "noise_variance": Quantity.of(model.noise_variance(at), unit**2),
        "has_constant_noise": Quantity.exact([model.has_constant_noise]),
        "inverse_smoothness": Quantity.of([1.0 / model.smoothness_], 1.0),
        "intrinsic_dimension": Quantity.of([model.intrinsic_dimension_], 1.0),
        "epochs": Quantity.of([epoch.validation_error for epoch in model.history_], unit),
        "tuning": Quantity.of([trial.error for step in model.tuning_ for trial in step.trials if trial.error], unit),
    }
    if case.options.get("gate_fraction", 0.0) == 0.0:
        mean, std = model.leave_one_out(X, y)
        result |= {"left_out_mean": Quantity.of(mean[:N_TEST], unit), "left_out_std": Quantity.of(std[:N_TEST], unit)}
    return result


def predictions(model: lobal.MixtureRegressor, at: Float[ndarray, "m d"], unit: float) -> Result:
    """What a fitted model says at inputs; `unit` is the labels' standard deviation."""
    mean, std = model.predict(at, return_std=True)
    return {
        "mean": Quantity.of(mean, unit),
        "std": Quantity.of(std, unit),
        "uncertainty": Quantity.of(model.uncertainty(at), unit**2),
        "local_bandwidth": Quantity.relative(model.local_bandwidth(at)),
        "local_complexity": Quantity.relative(model.local_complexity(at)),
        "gate": Quantity.of(model.gate(at), 1.0),
        "noise": Quantity.of([model.noise_], unit**2),
        "validation_error": Quantity.of([model.validation_error_], unit),
    }


def steps_result(history: Any, unit: float) -> Result:  # noqa: ANN401 - lobal's history, wherever it lives
    """What every step of a campaign found out; minus one stands for what was not known."""

    def column(name: str) -> list[float]:
        values = [getattr(step, name) for step in history]
        return [-1.0 if value is None else value for value in values]

    return {
        "step_sizes": Quantity.exact(column("size")),
        "step_n_inducing": Quantity.exact([column("n_inducing"), column("n_gate_inducing")]),
        "step_gammas": Quantity.relative([column("gamma_1"), column("gamma_2")]),
        "step_validation_errors": Quantity.of(column("validation_error"), unit),
        "step_noise": Quantity.of(column("noise"), unit**2),
        "step_attainable": Quantity.of(column("attainable"), 1.0),
    }


def run_molecular_campaign(case: MolecularCampaign) -> Result:
    """The rows that a campaign asks for, its densities, and the predictions of its last force field."""
    molecule = MOLECULES[case.atoms]
    pool, validation = trajectory(molecule, case.n_pool, seed=0), trajectory(molecule, 20, seed=1)
    energies, forces = molecule.labels(pool.R.numpy())
    learner = lobal.ActiveLearner(
        MoleculePool(pool, test_density=case.test_density, width=case.density_width),
        model=ForceFieldSurrogate(force_field_settings(case)),
        validation=validation,
        intrinsic_dimension=case.dimension,
        draw="random",
        **case.settings,
    )
    chosen, errors = dict[str, Quantity](), []
    for step, (move, b) in enumerate(case.plan):
        if move == "ask":
            chosen[f"chosen_{step}"] = Quantity.exact(learner.ask(b))
            continue
        used = [*learner.labelled.candidate, *learner.pending, *learner.failed]
        rows = learner.pending[:b] if move == "tell" else np.setdiff1d(np.arange(case.n_pool), used)[-b:]
        learner.tell(rows, (np.where(rows % 17 == 3, np.nan, energies[rows]), forces[rows]))
        if step + 1 == len(case.plan) or case.plan[step + 1][0] == "ask":  # labels are complete
            errors.append(learner.model.about["errors"])
    field, at, unit = learner.model, molecule.positions(5, seed=2), forces.std()
    energies_at, forces_at = field.predict(at)
    # That version did not record what the superior density could reach.
    steps = steps_result(learner.history, unit) | {"step_attainable": Quantity.of([-1.0] * len(learner.history), 1.0)}
    return {
        **chosen,
        **steps,
        "chosen_failed": Quantity.exact(np.sort(learner.failed)),
        "chosen_labelled": Quantity.exact(learner.labelled.candidate),
        "energies": Quantity.of(energies_at, energies.std()),
        "forces": Quantity.of(forces_at, unit),
        "local_bandwidth": Quantity.relative(field.local_bandwidth(at)),
        "shared_bandwidth": Quantity.relative(field.kernel.shared_bandwidth),
        "fit_force_errors": Quantity.of([each["force_rmse"] for each in errors], unit),
        "fit_energy_errors": Quantity.of([each["energy_rmse"] for each in errors], energies.std()),
        "pool_density": Quantity.relative(learner.candidates.pool_density),
        "test_density": Quantity.relative(learner.candidates.test_density),
        "training_density": Quantity.relative(learner.training_density()),
        "complexity": Quantity.relative(learner.local_complexity()),
        "superior_density": Quantity.relative(learner.superior_density()),
    }


def force_field_settings(case: MolecularCampaign) -> ForceFieldSettings:
    """The options of a case, which have the names of version 0.1.0."""
    options = dict(case.field)
    return ForceFieldSettings(
        anisotropy="tied" if options.pop("anisotropic", True) else None,
        anisotropy_size=options.pop("inducing"),
        anisotropy_folds=options.pop("folds"),
        inducing=options.pop("sparse", None),
        gate_inducing=case.n_gate_inducing,
        **options,
    )


def trajectory(molecule: Molecule, n: int, seed: int) -> Trajectory:
    """Labelled configurations of a molecule."""
    R = molecule.positions(n, seed)
    energies, forces = (torch.from_numpy(part) for part in molecule.labels(R))
    species = torch.tensor(molecule.species)
    return Trajectory(
        source="generated", units="eV and Ang", species=species, R=torch.from_numpy(R), energies=energies, forces=forces
    )
