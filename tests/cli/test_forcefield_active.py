from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from lobal.active.learner import ActiveLearner
from lobal.cli.app import app
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.geometry.trajectory import Trajectory, read_trajectory
from tests.cli.test_forcefield import invoke, said
from tests.molecules.setting import morse_potential, water

WATER = water(40)
SIZES = ("--sizes", "12,20")


def active(*arguments: object) -> str:
    """What a run says that goes well."""
    result = invoke("active", *arguments)
    assert result.exit_code == 0, result.output
    return said(result)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a pool that has labels, one that has none, and quick fits."""
    quick = ForceFieldSettings(anisotropy=None, bandwidths=(0.25, 0.5, 1.0), gate_inducing=10)
    monkeypatch.setattr("lobal.cli.forcefield_active.SETTINGS", quick)
    monkeypatch.chdir(tmp_path)
    save("water.npz", WATER)
    save("plain.npz", replace(WATER, energies=None, forces=None))
    return tmp_path


def save(path: str, trajectory: Trajectory, **fields: Any) -> None:
    arrays = {"R": trajectory.R, "E": trajectory.energies, "F": trajectory.forces}
    known: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
    np.savez(path, z=trajectory.species.numpy(), r_unit="Ang", e_unit="eV", **known, **fields)


def computed(path: str, *, change: Callable[[Trajectory], Trajectory] = lambda frames: frames) -> int:
    """Compute what the campaign asks for, and write it down."""
    frames = read_trajectory(next(Path("campaign").glob("next.*")), labelled=False)
    energies, forces = morse_potential(frames.R)
    save(path, change(replace(frames, energies=energies, forces=forces)))
    return len(frames)


def failed(frames: Trajectory) -> Trajectory:
    assert frames.energies is not None
    return replace(frames, energies=frames.energies.index_fill(0, torch.tensor([2, 4]), torch.nan))


# Pools with labels.


def test_labels_are_taken_from_the_pool_until_the_last_size() -> None:
    output = active("water.npz", "campaign", *SIZES, "--validation", 6)
    assert "errors at 6 validation configurations" in output
    assert "20 labels; force field in campaign/model.lobal" in output
    learner = ActiveLearner.read("campaign")
    assert (len(learner.candidates), learner.history.sizes) == (34, (0, 12))
    assert learner.history[1].validation_error is not None
    last = output[output.index(" 20 ") :]
    assert active("water.npz", "campaign", *SIZES, "--validation", 6).endswith(last)  # nothing is left to do
    result = invoke("evaluate", "campaign/model.lobal", "water.npz")
    assert "20 configurations, 20 that were learned from left out" in said(result)


def test_a_campaign_that_is_interrupted_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    active("water.npz", "whole", *SIZES)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("lobal.active.learner.ActiveLearner.ask", interrupted)
        assert invoke("active", "water.npz", "campaign", *SIZES).exit_code != 0
    with monkeypatch.context() as patch:
        patch.setattr("lobal.molecules.field.forcefield.ForceField.local_bandwidth", interrupted)
        result = invoke("active", "water.npz", "campaign", *SIZES)
        assert "stopped: 12 labels are saved in campaign; the same command continues" in said(result)
    active("water.npz", "campaign", *SIZES)
    assert ActiveLearner.read("whole").history == ActiveLearner.read("campaign").history


def test_a_force_field_is_not_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    output = active("water.npz", "campaign", *SIZES)
    monkeypatch.setattr("lobal.molecules.surrogate.fit_force_field", None)
    assert active("water.npz", "campaign", *SIZES).endswith(output[output.index(" 20 ") :])


def test_options_of_the_density_and_the_bandwidths_are_heard() -> None:
    options = ("--dimension", 2.0, "--width", 0.03, "--anisotropy", "free")
    active("water.npz", "campaign", "--sizes", 12, *options)
    learner = ActiveLearner.read("campaign")
    assert learner.settings.intrinsic_dimension == 2.0
    assert learner.candidates.width == 0.03  # type: ignore[attr-defined]
    assert learner.surrogate.to_settings()["anisotropy"] == "free"
    shared = ForceField.load("campaign/model.lobal").kernel.shared_bandwidth
    assert shared[0] != shared[1]
    active("water.npz", "campaign", "--sizes", 12, *options)  # the same again
    active("water.npz", "other", "--sizes", 12)
    assert 1.0 < ActiveLearner.read("other").settings.dimension <= 3.0


def test_the_report_shows_a_campaign() -> None:
    active("water.npz", "campaign", *SIZES, "--validation", 6)
    result = CliRunner().invoke(app, ["report", "campaign"])
    assert result.exit_code == 0, result.output
    page = Path("campaign.html").read_text()
    assert all(word in page for word in ("<svg", "20", "labels")) or "<img" in page


def test_more_sizes_continue_a_campaign_and_quiet_ones_print_nothing() -> None:
    assert active("water.npz", "campaign", "--sizes", 12, "--seed", 3, "--test-density", "uniform", "--quiet") == ""
    output = active("water.npz", "campaign", *SIZES, "--device", "cpu")
    assert "20 labels; force field" in output
    learner = ActiveLearner.read("campaign")
    assert (learner.settings.seed, learner.candidates.test_name) == (3, "uniform")  # type: ignore[attr-defined]


def test_labels_of_the_pool_that_are_not_finite_failed() -> None:
    assert WATER.energies is not None
    some = WATER.energies.clone()
    some[::4] = torch.nan
    save("gaps.npz", replace(WATER, energies=some))
    output = active("gaps.npz", "campaign", *SIZES, "--validation", 6)
    assert "failed; force field in" in output
    assert "nan" not in output


# Pools without.


def test_what_is_to_be_computed_is_written_and_taken() -> None:
    output = active("plain.npz", "campaign", *SIZES)
    assert "The next 12 configurations to compute are in campaign/next.xyz." in output
    assert "run the same command with --labels FILE" in output
    assert active("plain.npz", "campaign", *SIZES) == output
    assert computed("first.npz") == 12
    output = active("plain.npz", "campaign", *SIZES, "--labels", "first.npz")
    assert "first.npz: 12 configurations of the pool" in output
    assert "force field fitted to 12 labels 12 labels so far. The next 8 configurations" in output
    assert computed("second.npz") == 8
    output = active("plain.npz", "campaign", *SIZES, "--labels", "first.npz", "--labels", "second.npz")
    assert "20 labels; force field in campaign/model.lobal" in output
    assert not list(Path("campaign").glob("next.*"))
    assert ForceField.load("campaign/model.lobal").about["configurations"] == 20


def test_some_labels_at_a_time_will_do_and_frames_may_fail() -> None:
    active("plain.npz", "campaign", "--sizes", 14)
    computed("some.npz", change=lambda frames: frames.at(slice(5)))
    output = active("plain.npz", "campaign", "--sizes", 14, "--labels", "some.npz")
    assert "5 labels so far. The next 9 configurations" in output
    computed("rest.npz", change=failed)
    output = active("plain.npz", "campaign", "--sizes", 14, "--labels", "rest.npz")
    assert "2 of them have no finite label and count as failed" in output
    assert "12 labels, 2 failed; force field in" in output


def test_failures_are_made_up_for() -> None:
    active("plain.npz", "campaign", *SIZES)
    computed("first.npz", change=failed)
    output = active("plain.npz", "campaign", *SIZES, "--labels", "first.npz")
    assert "The next 10 configurations" in output
    assert computed("second.npz") == 10
    output = active("plain.npz", "campaign", *SIZES, "--labels", "second.npz")
    assert "20 labels, 2 failed; force field in" in output


def test_labels_of_other_frames_are_welcome_and_strangers_are_not_used() -> None:
    some = WATER.at(slice(18))
    R = torch.cat([some.R[:15], water(3, seed=9).R])
    energies, forces = morse_potential(R)
    save("before.npz", replace(some, R=R, energies=energies, forces=forces))
    output = active("plain.npz", "campaign", *SIZES, "--labels", "before.npz")
    assert "before.npz: 15 configurations of the pool 3 others are not in the pool and are not used" in output
    assert "force field fitted to 15 labels 15 labels so far. The next 5 configurations" in output


def test_labels_that_ase_wrote_are_read() -> None:
    ase_io, calculator = pytest.importorskip("ase.io"), pytest.importorskip("ase.calculators.singlepoint")
    active("plain.npz", "campaign", "--sizes", 12)
    frames = ase_io.read("campaign/next.xyz", index=":")
    energies, forces = morse_potential(torch.from_numpy(np.stack([frame.positions for frame in frames])))
    for frame, energy, force in zip(frames, energies, forces, strict=True):
        frame.calc = calculator.SinglePointCalculator(frame, energy=energy.item(), forces=force.numpy())
    ase_io.write("computed.xyz", frames[::-1])
    output = active("plain.npz", "campaign", "--sizes", 12, "--labels", "computed.xyz")
    assert "12 labels; force field in campaign/model.lobal" in output


def test_results_computed_in_place_are_not_overwritten() -> None:
    ase_io, calculator = pytest.importorskip("ase.io"), pytest.importorskip("ase.calculators.singlepoint")
    active("plain.npz", "campaign", "--sizes", 12)
    frames = ase_io.read("campaign/next.xyz", index=":")
    for frame in frames:
        frame.calc = calculator.SinglePointCalculator(frame, energy=1.0, forces=np.zeros((3, 3)))
    ase_io.write("campaign/next.xyz", frames)
    computed_in_place = Path("campaign/next.xyz").read_bytes()
    result = invoke("active", "plain.npz", "campaign", "--sizes", 12)
    assert result.exit_code == 2
    assert "move it elsewhere and give it as --labels" in said(result)
    assert Path("campaign/next.xyz").read_bytes() == computed_in_place


def test_frames_to_compute_are_written_again_if_nobody_changed_them() -> None:
    active("plain.npz", "campaign", "--sizes", 12)
    first = Path("campaign/next.xyz").read_bytes()
    active("plain.npz", "campaign", "--sizes", 12)
    assert Path("campaign/next.xyz").read_bytes() == first


# What is wrong.


WRONG: list[tuple[Callable[[Trajectory], Trajectory], str]] = [
    (lambda frames: replace(frames, forces=None), "has no forces; energies and forces of every"),
    (lambda frames: replace(frames, energies=None), "has no energies"),
    (lambda frames: replace(frames, species=torch.tensor([16, 1, 1])), "has atoms [16, 1, 1]"),
    (lambda frames: replace(frames, R=frames.R[..., [1, 0, 2]]), "no configuration of wrong.npz is in plain.npz"),
    (lambda frames: frames.at(torch.tensor([1, 1])), "the same configuration of the pool more than once"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_labels_that_are_wrong_are_refused(change: Callable[[Trajectory], Trajectory], message: str) -> None:
    active("plain.npz", "campaign", "--sizes", 12)
    computed("right.npz", change=lambda frames: frames.at(slice(3)))
    computed("wrong.npz", change=change)
    result = invoke("active", "plain.npz", "campaign", "--sizes", 12, "--labels", "right.npz", "--labels", "wrong.npz")
    assert result.exit_code == 2
    assert message in said(result)
    assert len(ActiveLearner.read("campaign").pending) == 12  # not one label of the files was told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absent.npz", "new"), "there is no file absent.npz"),
        (("water.npz", "new", "--sizes", "20,12"), "in ascending order"),
        (("water.npz", "new", "--sizes", "5,12"), "at least 10, got"),
        (("water.npz", "new", "--sizes", "a,b"), "expected whole numbers"),
        (("water.npz", "new", "--sizes", 39), "39 labels are requested, but water.npz has 40 configurations, 8 of"),
        (("water.npz", "new", "--sizes", 12, "--labels", "water.npz"), "has energies and forces of its own"),
        (("water.npz", "new", "--sizes", 12, "--test-density", "odd"), "from 0.0 to 1.0 of the pool's, got 'odd'"),
        (("water.npz", "new", "--sizes", 12, "--device", "abacus"), "device must be"),
        (("plain.npz", "new", "--sizes", 12, "--validation", 5), "no energies and forces to validate with"),
        (("plain.npz", "campaign", "--sizes", 12, "--seed", 1), "began with --seed 0, got 1"),
        (("other.npz", "campaign", "--sizes", 12), "is not the pool of the campaign"),
        (("plain.npz", ".", "--sizes", 12), "and is no campaign; choose a folder that is new or empty"),
        (("plain.npz", "campaign", "--sizes", 12, "--labels", "campaign/next.xyz"), "would be overwritten"),
        (("plain.npz", "campaign", "--sizes", 12, "--labels", "water.npz"), "there would be 40 labels, more than the"),
        (("half.npz", "new", "--sizes", 12), "half.npz has energies, but no forces"),
    ],
)
def test_what_is_wrong_is_said_without_a_traceback(arguments: tuple[Any, ...], message: str) -> None:
    if "campaign" in arguments:
        active("plain.npz", "campaign", "--sizes", 12)
    save("other.npz", water(40, seed=1))
    save("half.npz", replace(WATER, forces=None))
    result = invoke("active", *arguments)
    assert result.exit_code == 2
    assert message in said(result)
    assert "Traceback" not in result.output
    assert not Path("new").exists()
