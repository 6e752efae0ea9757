from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal import Pool
from lobal.active.surrogate import FitTask, Validation
from lobal.molecules.field.forcefield import errors_on
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.softmax_gate import SoftmaxMolecularGate
from lobal.molecules.field.softmax_options import SoftmaxGateOptions
from lobal.molecules.field.training import fit_force_field
from lobal.molecules.geometry.trajectory import Trajectory
from lobal.molecules.space import MoleculePool, joined_labels
from lobal.molecules.surrogate import ForceFieldSurrogate, symmetrised_metric
from tests.active.contracts import SurrogateContract
from tests.molecules.setting import water

QUICK = ForceFieldSettings(anisotropy=None, bandwidths=(0.25, 0.5, 1.0), gate_inducing=10, anisotropy_size=6)
SOFTMAX = replace(QUICK, softmax_gate=SoftmaxGateOptions(max_epochs=5))
SURROGATES = {
    "isotropic": ForceFieldSurrogate(QUICK),
    "free": ForceFieldSurrogate(replace(QUICK, anisotropy="free", anisotropy_size=4, anisotropy_folds=1)),
    "sparse": ForceFieldSurrogate(replace(QUICK, inducing=10, noise=1e-5)),
    "softmax": ForceFieldSurrogate(SOFTMAX),
    "given": ForceFieldSurrogate(QUICK, shared_bandwidth=torch.tensor([3.0, 3.0, 5.0], dtype=torch.float64)),
}
CANDIDATES = MoleculePool(water(60)).candidates(0)
ABSENT: dict[str, Any] = {"inducing_weight": None, "validation": None}


def labelled(trajectory: Trajectory) -> Validation:
    assert trajectory.energies is not None
    shape = trajectory.R.shape[:2]
    y = joined_labels((trajectory.energies, trajectory.forces), shape, name="labels")
    return Validation(trajectory.R.numpy(), y)


def task_of(n: int = 20, **changed: Any) -> FitTask:
    X, y, _ = labelled(water(n))
    fields = {**ABSENT, "weight": np.ones(n), "seed": 1, "step": 2, "smoothness": np.inf, "dimension": 2.5}
    return FitTask(X=X, y=y, **{**fields, "candidates": CANDIDATES, **changed})


class TestForceFields(SurrogateContract):
    @pytest.fixture(params=SURROGATES.values(), ids=SURROGATES)
    def surrogate(self, request: pytest.FixtureRequest) -> ForceFieldSurrogate:
        return request.param

    @pytest.fixture
    def task(self) -> FitTask:
        return task_of(validation=labelled(water(10, seed=3)))


def test_the_fit_is_that_of_the_settings_with_the_symmetries_of_the_pool() -> None:
    fitted = ForceFieldSurrogate(QUICK).fit(task_of())
    seed = int(np.random.SeedSequence([1, 2, 1]).generate_state(1)[0])
    expected = fit_force_field(
        water(20), QUICK, permutations=CANDIDATES.permutations, generator=torch.Generator().manual_seed(seed)
    )
    R = water(5, seed=4).R
    np.testing.assert_array_equal(fitted.model.predict(R).forces, expected.predict(R).forces)
    assert fitted.model.about["dimension"] == 2.5


def test_importance_weights_reach_the_softmax_gate() -> None:
    R = water(5, seed=4).R.numpy()
    plain, weighted = (
        ForceFieldSurrogate(SOFTMAX).fit(task_of(weight=each)) for each in (np.ones(20), np.linspace(0.0, 2.0, 20))
    )
    assert isinstance(plain.model.gate, SoftmaxMolecularGate)
    assert plain.model.about["task"] != weighted.model.about["task"]
    assert np.abs(plain.local_bandwidth(R) / weighted.local_bandwidth(R) - 1.0).max() > 1e-6


def test_errors_at_validation_configurations_are_weighted() -> None:
    new = water(10, seed=3)
    validation = Validation(*labelled(new)[:2], weight=np.linspace(0.0, 2.0, 10))
    fitted = ForceFieldSurrogate(QUICK).fit(task_of(validation=validation))
    expected = errors_on(fitted.model, new, validation.weight)
    assert fitted.model.about["errors"] == expected._asdict()
    assert fitted.validation_error == expected.force_rmse


@pytest.mark.parametrize(("n", "is_kept"), [(11, False), (12, True)])
def test_sigma_is_kept_once_there_are_configurations_enough_to_train_it(n: int, is_kept: bool, tmp_path: Path) -> None:
    surrogate = ForceFieldSurrogate(QUICK)
    fitted = surrogate.fit(task_of(n))
    assert bool(fitted.kept()) == is_kept
    fitted.save(tmp_path / "model")
    assert bool(surrogate.load(tmp_path / "model").kept()) == is_kept


def test_a_sigma_that_is_kept_or_given_is_not_trained_again() -> None:
    fitted = ForceFieldSurrogate(QUICK).fit(task_of(12))
    again = ForceFieldSurrogate(QUICK).fit(task_of(20, kept=fitted.kept()))
    assert torch.equal(again.model.kernel.shared_bandwidth, fitted.model.kernel.shared_bandwidth)
    assert SURROGATES["given"].fit(task_of()).model.kernel.shared_bandwidth.tolist() == [3.0, 3.0, 5.0]


def test_the_last_fit_is_read_while_nothing_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fits = []

    def counted(*arguments: Any, **options: Any) -> Any:
        fits.append(1)
        return fit_force_field(*arguments, **options)

    monkeypatch.setattr("lobal.molecules.surrogate.fit_force_field", counted)
    for task, number in ((task_of(), 1), (task_of(), 1), (task_of(step=3), 2), (task_of(21), 3)):
        surrogate = ForceFieldSurrogate(QUICK)
        surrogate.use_folder(tmp_path, read_only=False)
        surrogate.fit(task)
        assert len(fits) == number
    (tmp_path / "model.lobal").write_bytes(b"spoilt")
    surrogate.use_folder(tmp_path, read_only=True)
    surrogate.fit(task_of(21))
    assert "cannot be read and is fitted again" in caplog.text
    assert (tmp_path / "model.lobal").read_bytes() == b"spoilt"  # it is only read


def test_settings_without_local_bandwidths_are_refused() -> None:
    for wrong in ({"mixture": False}, {"labels": "forces"}):
        with pytest.raises(ValueError, match="a campaign needs local bandwidths, which only a mixture has"):
            ForceFieldSurrogate(replace(QUICK, **wrong))  # type: ignore[arg-type]


def test_other_candidates_and_functions_are_refused() -> None:
    with pytest.raises(TypeError, match="learned over a MoleculePool, got candidates of kind 'array'"):
        ForceFieldSurrogate(QUICK).fit(task_of(candidates=Pool(np.random.default_rng(0).random((20, 2))).candidates(0)))
    with pytest.raises(ValueError, match="leave noise out"):
        ForceFieldSurrogate.from_settings(asdict(QUICK), noise=lambda X: X)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is available")
def test_a_gpu_gives_the_same_distances() -> None:
    candidates = MoleculePool(water(20)).candidates(0)
    R, width = candidates.R.numpy(), torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64)
    found = []
    for device in ("cpu", "cuda"):
        metric = symmetrised_metric(candidates.permutations, device, width)
        values = metric.coordinates(R)
        assert values.device.type == device
        found.append(metric.squared_distances(values, values).cpu())
    torch.testing.assert_close(*found)
