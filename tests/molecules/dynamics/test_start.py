"""First trajectories under the true forces: their frames, and what becomes of them when the oracle fails."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal.molecules.dynamics.start import FEWEST, MOST_FAILURES, Start, StartSettings, first_frames
from lobal.molecules.dynamics.workers import Workers
from lobal.molecules.geometry.trajectory import Trajectory
from tests.molecules.dynamics.test_growth import REFERENCE, oracle

SETTINGS = StartSettings(first=12, validation=10, settle=4, every=1, temperature=300.0)
N_CALLS = 1 + 4 * SETTINGS.steps  # all walkers begin at one configuration
LASTING = range(10**6)


class Disturbed:
    """The potential, with an error at some of its calls; it knows where it was called."""

    def __init__(self, errors: Mapping[int, BaseException] | None = None) -> None:
        self.errors, self.calls = errors or {}, list[bytes]()

    def __call__(self, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.calls.append(R.tobytes())
        if error := self.errors.get(len(self.calls) - 1):
            raise error
        return oracle(R)


def broken(*calls: int) -> Disturbed:
    return Disturbed(dict.fromkeys(calls, RuntimeError("diverged")))


def stiffer(R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Another potential."""
    energies, forces = oracle(R)
    return 2.0 * energies, 2.0 * forces


def begun(folder: Path, label: Any = oracle, settings: StartSettings = SETTINGS, **options: Any) -> Start:
    """The first frames by an oracle; that of a `sampler` may be another one."""
    about = {"oracle": "morse", **asdict(settings)}
    sampler = options.pop("sampler", None)
    with Workers(label) as workers, Workers(sampler or label) as walkers:
        apart = {} if sampler is None else {"sampler": walkers}
        given: dict[str, Any] = {"path": folder / "start.jsonl", "about": about, **apart, **options}
        return first_frames(REFERENCE.R[0], REFERENCE.species, workers, settings, **given)


def assert_same(one: Start, other: Start) -> None:
    for mine, theirs in zip(one[:2], other[:2], strict=True):
        torch.testing.assert_close(mine.R, theirs.R, rtol=0, atol=0)
        torch.testing.assert_close(mine.forces, theirs.forces, rtol=0, atol=0)


def labels_of(part: Trajectory) -> tuple[torch.Tensor, torch.Tensor]:
    assert part.energies is not None
    assert part.forces is not None
    return part.energies, part.forces


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (folder / "start.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Start, list[bytes]]:
    """Its folder, its frames, and the calls of the oracle."""
    folder, works = tmp_path_factory.mktemp("undisturbed"), Disturbed()
    return folder, begun(folder, works), works.calls


# Frames.


@pytest.mark.parametrize(
    ("options", "learning", "frames"),
    [
        ({}, 2, 25),
        ({"first": 30, "validation": 10}, 3, 10),
        ({"first": 100, "validation": 10, "walkers": 2}, 1, 100),
        ({"first": 10, "validation": 100, "walkers": 3}, 1, 50),
    ],
)
def test_walkers_are_shared_as_the_frames_are(options: dict[str, int], learning: int, frames: int) -> None:
    settings = StartSettings(**options)
    assert (settings.learning_walkers, settings.frames) == (learning, frames)
    assert learning * frames >= settings.first
    assert (settings.walkers - learning) * frames >= settings.validation
    assert settings.steps == 200 + 20 * (frames - 1)


def test_there_are_as_many_frames_as_wanted(undisturbed: tuple[Path, Start, list[bytes]]) -> None:
    _, start, calls = undisturbed
    assert (len(start.first), len(start.validation)) == (12, 10)
    assert len(calls) == start.calls == N_CALLS
    assert start.resets == 0


def test_energies_and_forces_are_those_of_the_oracle(undisturbed: tuple[Path, Start, list[bytes]]) -> None:
    for part in undisturbed[1][:2]:
        for labels, expected in zip(labels_of(part), oracle(part.R.numpy()), strict=True):
            np.testing.assert_allclose(labels, expected, rtol=1e-9, atol=1e-9)


def test_frames_to_learn_from_and_for_validation_are_of_different_walkers(
    undisturbed: tuple[Path, Start, list[bytes]],
) -> None:
    folder, start, _ = undisturbed
    R = torch.tensor([event["R"] for event in events(folder, "step")[4:]], dtype=torch.float64)
    assert len(R) == SETTINGS.frames
    torch.testing.assert_close(start.first.R, R[:, :2].flatten(0, 1)[:12], rtol=0, atol=0)
    torch.testing.assert_close(start.validation.R, R[:, 2:].flatten(0, 1)[:10], rtol=0, atol=0)


def test_no_two_frames_are_the_same(undisturbed: tuple[Path, Start, list[bytes]]) -> None:
    R = torch.cat([undisturbed[1].first.R, undisturbed[1].validation.R]).flatten(1)
    assert torch.pdist(R).min() > 1e-3


def test_the_seed_decides(undisturbed: tuple[Path, Start, list[bytes]], tmp_path: Path) -> None:
    assert_same(begun(tmp_path / "same"), undisturbed[1])
    other = begun(tmp_path / "other", settings=replace(SETTINGS, seed=1))
    assert (other.first.R - undisturbed[1].first.R).abs().max() > 1e-2


def test_walkers_begin_twice_as_hot_as_the_bath(tmp_path: Path) -> None:
    """Half of the kinetic energy becomes potential energy."""
    settings = replace(SETTINGS, walkers=100, settle=1)
    begun(tmp_path, settings=settings)
    V = torch.tensor(events(tmp_path, "step")[0]["V"], dtype=torch.float64)
    masses = torch.tensor([15.999, 1.008, 1.008], dtype=torch.float64)
    kinetic = 0.5 * (V.square().sum(-1) @ masses).mean() / 9.6485e-3  # eV, of six degrees of freedom
    assert 2 * kinetic / (6 * 8.617e-5) == pytest.approx(2 * 300.0, rel=0.2)


def test_every_step_is_reported(tmp_path: Path) -> None:
    reports: list[tuple[int, int]] = []
    begun(tmp_path, report=lambda *numbers: reports.append(numbers))
    n = SETTINGS.steps + 1
    assert reports == [(number, n) for number in range(1, n + 1)]


# Starts that end early.


@pytest.mark.parametrize("call", [0, 1, 4, 5, 18, N_CALLS - 1])
def test_an_interrupted_start_goes_on_with_the_same_frames_and_no_call_is_repeated(
    call: int, undisturbed: tuple[Path, Start, list[bytes]], tmp_path: Path
) -> None:
    interrupted, works = Disturbed({call: KeyboardInterrupt()}), Disturbed()
    with pytest.raises(KeyboardInterrupt):
        begun(tmp_path, interrupted)
    assert_same(begun(tmp_path, works), undisturbed[1])
    assert [*interrupted.calls[:-1], *works.calls] == undisturbed[2]


def test_a_start_that_is_complete_calls_nothing(undisturbed: tuple[Path, Start, list[bytes]]) -> None:
    works = Disturbed()
    assert_same(begun(undisturbed[0], works), undisturbed[1])
    assert works.calls == []


# Oracles that fail.


def test_a_call_that_fails_once_is_made_again(undisturbed: tuple[Path, Start, list[bytes]], tmp_path: Path) -> None:
    fails = broken(6)
    assert_same(begun(tmp_path, fails), undisturbed[1])
    assert len(fails.calls) == N_CALLS + 1


def test_a_walker_whose_call_fails_begins_again_and_is_counted(
    undisturbed: tuple[Path, Start, list[bytes]], tmp_path: Path
) -> None:
    start = begun(tmp_path, broken(6, 7))  # the second walker at the second step
    assert start.resets == 1
    mine, theirs = (
        torch.tensor(events(folder, "step")[2]["R"], dtype=torch.float64) for folder in (tmp_path, undisturbed[0])
    )
    torch.testing.assert_close(mine[1], REFERENCE.R[0], rtol=0, atol=0)
    torch.testing.assert_close(mine[[0, 2, 3]], theirs[[0, 2, 3]], rtol=0, atol=0)
    for part in start[:2]:
        np.testing.assert_allclose(labels_of(part)[0], oracle(part.R.numpy())[0], rtol=1e-12)


def test_a_walker_that_failed_before_an_interrupt_has_failed_after_it(tmp_path: Path) -> None:
    together = begun(tmp_path / "together", broken(6, 7))
    errors = {6: RuntimeError(), 7: RuntimeError(), 12: KeyboardInterrupt()}  # in the next step
    with pytest.raises(KeyboardInterrupt):
        begun(tmp_path / "apart", Disturbed(errors))
    apart = begun(tmp_path / "apart")
    assert_same(apart, together)
    assert apart.resets == 1


def test_walkers_that_fail_again_and_again_end_the_start(tmp_path: Path) -> None:
    hot = replace(SETTINGS, temperature=5e4, settle=200)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"walkers failed \d+ times in \d+ steps: .* break; lower the temp"):
            begun(tmp_path, settings=hot)
    assert MOST_FAILURES - 4 < events(tmp_path, "step")[-1]["failures"] <= MOST_FAILURES


def test_failures_that_are_rare_do_not_end_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lobal.molecules.dynamics.start.MOST_FAILURES", 1)
    long, failing = replace(SETTINGS, settle=50), (101, 161, 221)  # two attempts and the first configuration are calls
    start = begun(tmp_path, broken(*failing, *(call + 1 for call in failing)), long)
    assert start.resets == 3
    assert len(start.first) == long.first


def test_a_second_start_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    def another(R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with pytest.raises(BlockingIOError, match="is in use by process"):
            begun(tmp_path)
        return oracle(R)

    begun(tmp_path, another)


def test_an_oracle_that_fails_at_the_first_configuration_is_the_reason_and_goes_on_once_it_works(
    undisturbed: tuple[Path, Start, list[bytes]], tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match="no energy and forces of the first configuration; see the message above"):
        begun(tmp_path, broken(*LASTING))
    assert_same(begun(tmp_path), undisturbed[1])


@pytest.mark.parametrize(
    ("walkers", "message"),
    [
        (
            3,
            r"fails for walkers \[0, 1, 2\], and at the first configuration, where it worked; .* mend it and run again",
        ),
        (6, "10 attempts failed one after the other, and a call that worked before and fails now too"),
    ],
)
def test_an_oracle_that_works_no_more_ends_the_start_which_goes_on_with_the_same_frames(
    walkers: int, message: str, tmp_path: Path
) -> None:
    settings = replace(SETTINGS, walkers=walkers)
    with pytest.raises(RuntimeError, match=message):
        begun(tmp_path / "broken", broken(*range(1 + 5 * walkers, 1000)), settings)
    assert_same(begun(tmp_path / "broken", settings=settings), begun(tmp_path / "works", settings=settings))


def test_an_oracle_that_works_no_more_in_the_middle_of_a_step_sends_no_walker_back(
    undisturbed: tuple[Path, Start, list[bytes]], tmp_path: Path
) -> None:
    with pytest.raises(
        RuntimeError, match=r"fails for walkers \[2, 3\], and at the first configuration, where it worked"
    ):
        begun(tmp_path, broken(*range(1 + 4 * 5 + 2, 1000)))
    again = Disturbed()
    start = begun(tmp_path, again)
    assert_same(start, undisturbed[1])
    assert start.resets == 0
    assert again.calls == undisturbed[2][1 + 4 * 5 + 2 :]


# Walkers that follow another program.


def test_with_a_sampler_the_oracle_labels_frames_only(
    undisturbed: tuple[Path, Start, list[bytes]], tmp_path: Path
) -> None:
    expensive, cheap = Disturbed(), Disturbed()
    start = begun(tmp_path, lambda R: (expensive(R), stiffer(R))[1], sampler=cheap)
    assert cheap.calls == undisturbed[2]
    assert expensive.calls == [R[None].numpy().tobytes() for part in undisturbed[1][:2] for R in part.R]
    for part, same in zip(start[:2], undisturbed[1][:2], strict=True):
        torch.testing.assert_close(part.R, same.R, rtol=0, atol=0)
        for labels, followed in zip(labels_of(part), labels_of(same), strict=True):
            torch.testing.assert_close(labels, 2.0 * followed)


@pytest.mark.parametrize("call", [0, 5, 21])
def test_frames_that_were_labelled_before_an_interrupt_are_not_labelled_again(call: int, tmp_path: Path) -> None:
    interrupted, works, cheap = Disturbed({call: KeyboardInterrupt()}), Disturbed(), Disturbed()
    with pytest.raises(KeyboardInterrupt):
        begun(tmp_path, interrupted, sampler=oracle)
    start = begun(tmp_path, works, sampler=cheap)
    assert cheap.calls == []
    frames = [R[None].numpy().tobytes() for part in start[:2] for R in part.R]
    assert [*interrupted.calls[:-1], *works.calls] == frames


def test_a_frame_without_a_label_is_left_out_where_enough_remain(
    undisturbed: tuple[Path, Start, list[bytes]], tmp_path: Path
) -> None:
    start = begun(tmp_path, broken(3, 4), sampler=oracle)
    rows = [row for row in range(12) if row != 3]
    torch.testing.assert_close(start.first.R, undisturbed[1].first.R[rows], rtol=0, atol=0)
    assert len(start.validation) == 10
    again = Disturbed()
    assert_same(begun(tmp_path, again, sampler=oracle), start)
    assert again.calls == []


def test_too_few_frames_with_labels_end_the_start_and_are_labelled_later(
    undisturbed: tuple[Path, Start, list[bytes]], tmp_path: Path
) -> None:
    fails, works = broken(12, 13), Disturbed()  # the first frame for validation, of ten
    with pytest.raises(RuntimeError, match=f"9 of the first frames .* have labels, expected {FEWEST} at least"):
        begun(tmp_path, fails, sampler=oracle)
    assert_same(begun(tmp_path, works, sampler=oracle), undisturbed[1])
    assert works.calls == [undisturbed[1].validation.R[:1].numpy().tobytes()]


# Other starts.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 310.0}, "it began with temperature 300.0, got 310.0; use the same, or another folder"),
        ({"seed": 1}, "it began with seed 0, got 1"),
        ({"walkers": 5}, "it began with walkers 4, got 5"),
        ({"first": 13}, "it began with first 12, got 13"),
    ],
)
def test_the_file_of_another_start_is_refused_by_the_name_of_the_setting(
    options: dict[str, Any], message: str, undisturbed: tuple[Path, Start, list[bytes]]
) -> None:
    with pytest.raises(ValueError, match=message):
        begun(undisturbed[0], settings=replace(SETTINGS, **options))


def test_the_file_of_another_program_or_configuration_is_refused(undisturbed: tuple[Path, Start, list[bytes]]) -> None:
    file = undisturbed[0] / "start.jsonl"
    others = (
        ("gfn2", 0.0, r"another campaign: it began with oracle 'morse', got 'gfn2';"),
        ("morse", 0.1, "began with another configuration, of atomic numbers"),
    )
    with Workers(oracle) as workers:
        for name, moved, message in others:
            about = {"oracle": name, **asdict(SETTINGS)}
            with pytest.raises(ValueError, match=message):
                first_frames(REFERENCE.R[0] + moved, REFERENCE.species, workers, SETTINGS, path=file, about=about)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": 9}, "first must be .*at least 10, got 9"),
        ({"validation": 0}, "validation must be .*at least 10, got 0"),
        ({"walkers": 1}, "walkers must be .*at least 2, got 1"),
        ({"every": 0}, "every must be .*at least 1, got 0"),
        ({"temperature": 0.0}, "temperature must be above 0, got 0"),
        ({"temperature": 1e6}, "temperature must be between 0 and 100000, got 1000000"),
        ({"time_step": -1.0}, "time_step must be above 0, got -1"),
        ({"friction": float("nan")}, "friction must be"),
    ],
)
def test_settings_out_of_bounds_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StartSettings(**options)


def test_an_element_without_a_mass_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with Workers(oracle) as workers, pytest.raises(ValueError, match=r"atomic numbers must be 1 to 86 .*, got 110"):
        first_frames(
            REFERENCE.R[0], torch.tensor([110, 1, 1]), workers, SETTINGS, path=tmp_path / "start.jsonl", about={}
        )
    assert list(tmp_path.iterdir()) == []
