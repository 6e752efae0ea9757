"""Campaigns of force fields: the learner over a pool of molecules."""

import contextlib
import itertools
import json
import multiprocessing
import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal import ActiveLearner
from lobal.active.stopping import target_error
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.geometry.trajectory import read_trajectory
from lobal.molecules.space import MoleculePool
from lobal.molecules.surrogate import ForceFieldSurrogate
from tests.faults.setting import state_of
from tests.faults.test_interrupts import InterruptedAt
from tests.learner_setting import DRAWS_AS_RECORDED
from tests.molecules.setting import morse_potential, water

POOL = water(80)
VALIDATION = water(10, seed=2)
QUICK = ForceFieldSettings(anisotropy=None, bandwidths=(0.25, 0.5, 1.0), gate_inducing=10, anisotropy_size=6)
FIXTURES = Path(__file__).parents[1] / "fixtures"
ORDERS: dict[str, Any] = {"intrinsic_dimension": 2.0}


def begun(path: Path | None = None, pool: MoleculePool | None = None, **options: Any) -> ActiveLearner:
    space = pool or MoleculePool(POOL, width=0.03)
    return ActiveLearner(space, model=ForceFieldSurrogate(QUICK), path=path, **{**ORDERS, **options})


def oracle(R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    energies, forces = morse_potential(torch.from_numpy(R))
    return energies.numpy(), forces.numpy()


def test_a_campaign_runs_with_an_executor_and_stops_by_a_rule(tmp_path: Path) -> None:
    options: dict[str, Any] = {"validation": VALIDATION}
    with begun(tmp_path / "campaign", **options) as learner, ThreadPoolExecutor(2) as executor:
        history = learner.run(oracle, sizes=[12, 20, 40], executor=executor, stop=[target_error(1e3)])
        assert (history.sizes, len(learner.labelled.y)) == ((0,), 12)
        learner.run(oracle, sizes=[12, 20], executor=executor)
        assert learner.history[1].validation_error == pytest.approx(
            ForceField.load(tmp_path / "campaign" / "steps" / "0001.model").about["errors"]["force_rmse"]
        )
        assert learner.expected_savings() == (max(0.0, 1.0 - learner.attainable()), None)  # no leave-one-out errors
    whole = begun(**options)
    whole.run(oracle, sizes=[12, 20])
    np.testing.assert_array_equal(whole.labelled.y, learner.labelled.y)


def test_a_campaign_is_read_without_its_pool_and_loaded_with_or_without(tmp_path: Path) -> None:
    with begun(tmp_path / "campaign", validation=VALIDATION) as learner:
        learner.run(oracle, sizes=[12, 20])
        row = min({*range(80)} - {*learner.labelled.candidate.tolist()})
        learner.expect([row])
        model = learner.model
        reader = ActiveLearner.read(tmp_path / "campaign")
        assert reader.pending.tolist() == [row]
        np.testing.assert_array_equal(reader.model.weights, model.weights)
        np.testing.assert_array_equal(reader.superior_density(), learner.superior_density())
        batch = learner.ask(4)
    for pool in (None, MoleculePool(POOL)):
        with ActiveLearner.load(tmp_path / "campaign", pool=pool) as again:
            assert again.pending.tolist() == [row, *batch]
            assert again.settings == learner.settings
    with pytest.raises(ValueError, match="is not the pool of the campaign"):
        ActiveLearner.load(tmp_path / "campaign", pool=MoleculePool(water(80, seed=1)))


def test_further_rows_bring_the_density_to_the_superior_one() -> None:
    learner = begun()
    learner.run(oracle, sizes=[20])
    p_X, p_k = learner.candidates.pool_density, torch.from_numpy(learner.training_density())
    bandwidth = torch.from_numpy(learner.model.local_bandwidth(POOL.R))
    root = (p_X / bandwidth.square()).sqrt()  # sqrt(q LFC)
    p_sup = root / (root / p_X).mean()
    torch.testing.assert_close(torch.from_numpy(learner.superior_density()), p_sup)
    target = 0.9 * p_sup + 0.1 * p_X
    learner.ask(20)
    gamma_1 = (p_k / target).max().item()
    gamma_2 = max(0.0, (gamma_1 - 2.0) / (2.0 * (gamma_1 - 1.0)))  # of Algorithm 1, for twice the labels
    assert learner.history[1].gamma_1 == pytest.approx(gamma_1)
    expected = gamma_2 * p_k + (1.0 - gamma_2) * target
    torch.testing.assert_close(torch.from_numpy(learner.training_density()), expected)


def test_the_last_label_of_a_configuration_counts_and_failures_are_not_asked_for_again() -> None:
    learner = begun()
    rows = learner.ask(20)
    energies, forces = oracle(POOL.R[rows].numpy())
    energies[0], forces[1, 2, 0] = np.nan, np.inf
    learner.tell(rows, (energies, forces))
    assert set(learner.failed) == {*rows[:2]}
    learner.tell(rows[2:3], (np.array([-1.0]), forces[2:3]))
    assert (len(learner.labelled.y), learner.labelled.y[0, 0]) == (18, -1.0)
    assert not {*rows[:2]} & {*learner.ask(50)}


def test_a_dimension_that_is_not_given_is_estimated() -> None:
    learner = begun(intrinsic_dimension=None)
    assert learner.settings.dimension == learner.candidates.intrinsic_dimension(0)


# Files of version 0.1.0.


@pytest.mark.parametrize("name", ["mixture", "single_bandwidth", "sparse"])
def test_force_fields_of_the_first_version_predict_the_same(name: str) -> None:
    field = ForceField.load(FIXTURES / "forcefields" / f"{name}.lobal")
    expected = json.loads((FIXTURES / "forcefields" / f"{name}.json").read_text())
    R = np.array(expected["positions"])
    energies, forces = field.predict(R)
    np.testing.assert_allclose(energies, expected["energies"], rtol=1e-9)
    np.testing.assert_allclose(forces, expected["forces"], rtol=0.0, atol=1e-8)
    if field.gate is not None:
        np.testing.assert_allclose(field.local_bandwidth(R), expected["local_bandwidth"], rtol=1e-8)


def test_campaigns_of_the_first_version_load_with_their_pool_and_go_on(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "forcefield_campaign" / "campaign", tmp_path / "campaign")
    expected = json.loads((FIXTURES / "forcefield_campaign" / "expected.json").read_text())
    pool = read_trajectory(FIXTURES / "forcefield_campaign" / "pool.npz")
    with pytest.raises(ValueError, match=r"does not hold its pool, pool\.npz with 60 configurations"):
        ActiveLearner.load(tmp_path / "campaign")
    for _ in range(2):  # before and after events of the present format
        with ActiveLearner.load(tmp_path / "campaign", pool=MoleculePool(pool)) as learner:
            assert learner.candidates.rows[learner.labelled.candidate].tolist() == expected["labelled"]  # type: ignore[attr-defined]
            np.testing.assert_array_equal(learner.labelled.y[:, 0], expected["energies"])
            assert learner.failed.tolist() == expected["failed"]
            assert learner.history.sizes[:3] == tuple(expected["sizes"])
            if len(learner.history) == 3:
                assert learner.pending.tolist() == expected["pending"]
                np.testing.assert_allclose(learner.training_density(), expected["training_density"], rtol=1e-12)
                np.testing.assert_allclose(learner.superior_density(), expected["superior_density"], rtol=1e-8)
                asked = learner.ask(3).tolist()
                assert asked == expected["next"] or not DRAWS_AS_RECORDED
            else:
                assert learner.pending.tolist() == [*expected["pending"], *asked]


# Kills.


def go_on(folder: Path) -> None:
    """What a campaign's process does, from the start or from where the last one died."""
    is_there = (folder / "header.json").exists()
    with ActiveLearner.load(folder) if is_there else begun(folder, MoleculePool(POOL.at(slice(24)))) as learner:
        learner.run(oracle, sizes=[10, 15], points_per_call=6)
        assert learner.model is not None


def go_on_until(folder: Path, writes: int) -> None:
    """The same, killed before it has written so often."""
    real, left = os.fsync, iter(range(writes))

    def fsync(file: int) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        real(file)

    os.fsync = fsync
    go_on(folder)


def state(folder: Path) -> tuple[Any, ...]:
    learner = ActiveLearner.read(folder)
    return learner.labelled.candidate.tolist(), learner.history, learner.model.weights.tolist()


def test_killed_at_any_instant_a_campaign_asks_for_the_same_rows(tmp_path: Path) -> None:
    go_on(tmp_path / "whole")
    expected = state(tmp_path / "whole")
    for kills in itertools.count(step=3):
        folder = tmp_path / str(kills)
        process = multiprocessing.get_context("fork").Process(target=go_on_until, args=(folder, kills))
        process.start()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        go_on(folder)
        assert state(folder) == expected
    assert kills > 15


# Interrupts.


def label_rows(learner: ActiveLearner, rows: np.ndarray) -> None:
    learner.tell(rows, oracle(POOL.R[torch.from_numpy(rows)].numpy()))


@pytest.mark.parametrize("name", ["ask", "tell"])
def test_after_ctrl_c_at_some_lines_a_campaign_goes_on_as_its_folder_does(name: str, tmp_path: Path) -> None:
    with begun(tmp_path / "begun", MoleculePool(POOL.at(slice(24)))) as learner:
        learner.run(oracle, sizes=[10])
        learner.ask(2)
    work = {"ask": lambda each: each.ask(3), "tell": lambda each: label_rows(each, each.pending)}[name]
    for place in itertools.count(step=29):
        folder, interrupt = tmp_path / str(place), InterruptedAt(place)
        shutil.copytree(tmp_path / "begun", folder)
        with ActiveLearner.load(folder) as learner:
            with contextlib.suppress(KeyboardInterrupt):
                interrupt(lambda: work(learner))
            assert state_of(ActiveLearner.read(folder)) == state_of(learner)
            label_rows(learner, learner.ask(2))
            assert state_of(ActiveLearner.read(folder)) == state_of(learner)
        if interrupt.lines <= place:
            break
