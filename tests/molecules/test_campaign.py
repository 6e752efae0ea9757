import itertools
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lobal.active.campaign.folder import Campaign
from lobal.molecules.campaign import ForceFieldCampaign
from lobal.molecules.campaign_record import CampaignSettings
from lobal.molecules.density import configuration_density, error_weights
from lobal.molecules.field.evaluation import errors_on
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.training import fit_force_field
from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.trajectory import Trajectory
from tests.molecules.setting import water

POOL = water(120)
assert POOL.energies is not None
assert POOL.forces is not None
ENERGIES, FORCES = POOL.energies.numpy(), POOL.forces.numpy()
QUICK = ForceFieldSettings(anisotropy=None, anisotropy_size=6, bandwidths=(0.125, 0.25, 0.5, 1.0), gate_inducing=12)
FIELD = fit_force_field(water(20, seed=1), QUICK, generator=torch.Generator().manual_seed(0))


class FakeFit:
    """A fit that takes no time; its bandwidths depend on labels and generator, and Sigma_E is what was given."""

    def __init__(self) -> None:
        self.shared: list[Tensor | None] = []

    def __call__(
        self,
        learned: Trajectory,
        settings: ForceFieldSettings,  # noqa: ARG002 - as every fit
        *,
        shared_bandwidth: Tensor | None,
        permutations: Tensor,
        generator: torch.Generator,
        on_status: Callable[[str], None],  # noqa: ARG002
    ) -> ForceField:
        assert learned.energies is not None
        assert len(permutations) == 2  # those of the pool
        self.shared.append(shared_bandwidth)
        power = 0.5 + torch.rand(1, dtype=torch.float64, generator=generator).item() + learned.energies.std().item()
        trained = len(learned) * FIELD.kernel.shared_bandwidth if shared_bandwidth is None else shared_bandwidth
        kernel = replace(FIELD.kernel, shared_bandwidth=trained)
        return replace(FIELD, bandwidths=FIELD.bandwidths**power, kernel=kernel)


def begun(folder: Path | None = None, pool: Trajectory = POOL, **options: Any) -> ForceFieldCampaign:
    settings = CampaignSettings(field=QUICK, **options.pop("settings", {}))
    return ForceFieldCampaign.create(folder, pool, settings, **{"fit": FakeFit(), **options})


def opened(folder: Path, pool: Trajectory = POOL, **options: Any) -> ForceFieldCampaign:
    return ForceFieldCampaign.open(folder, pool, **{"fit": FakeFit(), **options})


def tell(campaign: ForceFieldCampaign, rows: np.ndarray) -> None:
    campaign.tell(rows, ENERGIES[rows], FORCES[rows])


def run(campaign: ForceFieldCampaign, sizes: tuple[int, ...] = (12, 24, 40), at_once: int = 100) -> None:
    for size in sizes:
        if size > campaign.size:
            campaign.ask(size - campaign.size)
        while len(campaign.pending) > 0:
            tell(campaign, campaign.pending[:at_once])


def weights_of(monkeypatch: pytest.MonkeyPatch, campaign: ForceFieldCampaign, b: int) -> Tensor:
    """The weights by which the next rows are drawn."""
    seen: list[Tensor] = []

    def draw(weights: Tensor, X: np.ndarray, b: int, *, generator: torch.Generator) -> Tensor:
        seen.append(weights.clone())
        return weights.topk(b).indices

    with monkeypatch.context() as patch:
        patch.setattr("lobal.molecules.campaign.draw_random", draw)
        campaign.ask(b)
    return seen[0] / seen[0].sum()


# Algorithm 1.


@pytest.mark.parametrize(("test_density", "power"), [("pool", -0.5), ("uniform", -1.0)])
def test_the_first_rows_follow_the_root_of_the_test_density(
    test_density: str, power: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = begun(settings={"test_density": test_density})
    weights = weights_of(monkeypatch, campaign, 12)
    expected = campaign.pool_density**power
    torch.testing.assert_close(weights, expected / expected.sum())
    torch.testing.assert_close((campaign.density / campaign.pool_density).mean().item(), 1.0)


def test_further_rows_bring_the_density_to_the_superior_one(monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = begun()
    run(campaign, (20,))
    p_X, p_k = campaign.pool_density, campaign.density
    bandwidth = torch.from_numpy(campaign.fit().local_bandwidth(POOL.R))
    root = (p_X / bandwidth.square()).sqrt()  # sqrt(q LFC)
    p_sup = 0.9 * root / (root / p_X).mean() + 0.1 * p_X
    torch.testing.assert_close(campaign.superior_density(), root / (root / p_X).mean())
    used = torch.from_numpy(campaign.labelled.row.numpy())  # type: ignore[union-attr]
    weights = weights_of(monkeypatch, campaign, 20)
    gamma_1 = (p_k / p_sup).max().item()
    gamma_2 = max(0.0, (gamma_1 - 2.0) / (2.0 * (gamma_1 - 1.0)))  # of Algorithm 1, for twice the labels
    p_next = gamma_2 * p_k + (1.0 - gamma_2) * p_sup
    expected = ((2.0 * p_next - p_k) / p_X).clamp_min(0.0).index_fill(0, used, 0.0)
    torch.testing.assert_close(weights, expected / expected.sum())
    torch.testing.assert_close(campaign.density, p_next)
    assert campaign.history[-1].gamma_1 == pytest.approx(gamma_1)
    assert campaign.history[-1].gamma_2 == pytest.approx(gamma_2)


def test_a_finite_smoothness_lets_the_density_have_a_say() -> None:
    campaign = begun(settings={"smoothness": 2.0, "dimension": 3.0})
    run(campaign, (20,))
    bandwidth = torch.from_numpy(campaign.fit().local_bandwidth(POOL.R))
    torch.testing.assert_close(campaign.complexity, campaign.density ** (-3.0 / 7.0) / bandwidth**3)


def test_sigma_is_trained_once(tmp_path: Path) -> None:
    campaign = begun(tmp_path / "campaign")
    run(campaign)
    campaign.close()
    with opened(tmp_path / "campaign", fit=(fit := FakeFit())) as again:
        tell(again, again.ask(5))
        again.fit()
    first = 12 * FIELD.kernel.shared_bandwidth
    assert [shared is None or torch.equal(shared, first) for shared in fit.shared] == [True, True]
    assert fit.shared[1] is not None
    torch.testing.assert_close(again.fit().kernel.shared_bandwidth, first)


def test_sigma_is_trained_anew_while_there_are_too_few_configurations_for_it() -> None:
    campaign = ForceFieldCampaign.create(
        None, POOL, CampaignSettings(field=replace(QUICK, anisotropy_size=7)), fit=(fit := FakeFit())
    )
    run(campaign, (12, 16, 20))
    campaign.fit()
    assert [shared is None for shared in fit.shared] == [True, True, False]
    torch.testing.assert_close(campaign.fit().kernel.shared_bandwidth, 16 * FIELD.kernel.shared_bandwidth)


def test_a_single_expert_cannot_lead_a_campaign() -> None:
    with pytest.raises(ValueError, match="goes by local bandwidths, which a mixture alone has"):
        CampaignSettings(field=replace(QUICK, mixture=False))


def test_rows_are_a_list_of_numbers() -> None:
    campaign = begun()
    with pytest.raises(ValueError, match="rows are numbers of those"):
        campaign.tell([[1], [2]], [0.0, 0.0], torch.zeros(2, 3, 3))


def test_a_real_force_field_is_fitted_and_its_errors_are_noted(tmp_path: Path) -> None:
    validation = water(30, seed=2)
    with begun(tmp_path / "campaign", fit=fit_force_field, validation=validation) as campaign:
        run(campaign, (12, 20))
        errors = errors_on(campaign.fit(), validation)
        assert [fit.labels for fit in campaign.fits] == [12, 20]
        assert campaign.fits[-1].errors == errors
        assert campaign.history.sizes == (0, 12)
        assert campaign.fits[0].errors is not None
        assert campaign.history[1].validation_error == campaign.fits[0].errors.force_rmse
    saved = ForceField.load(tmp_path / "campaign" / "model.lobal")
    assert errors_on(saved, validation) == errors


def test_under_a_uniform_test_density_rare_configurations_count_as_much_as_frequent_ones() -> None:
    validation = water(30, seed=2)
    often = validation.at(torch.tensor([0] * 50 + [*range(1, 30)]))
    pool = replace(POOL, R=torch.cat([POOL.R, validation.R[:1].expand(50, -1, -1)]), energies=None, forces=None)
    with begun(pool=pool, validation=often, settings={"test_density": "uniform"}) as campaign:
        tell(campaign, np.arange(20))
        field, errors = campaign.fit(), campaign.fits[-1].errors
    assert errors is not None
    values = describe(pool.R).values
    density = 1.0 + configuration_density(describe(often.R).values, values, campaign._permutations)
    weight = error_weights("uniform", density).numpy()
    assert weight[:50].sum() < 0.2 * weight.sum()
    assert errors == errors_on(field, often, weight)


# Rows.


def test_rows_are_asked_for_once_and_only_if_available() -> None:
    available = torch.arange(120) % 2 == 0
    campaign = begun(available=available)
    run(campaign, (12, 24, 60))
    rows = np.concatenate([step.indices for step in campaign.history])
    assert sorted(rows) == list(range(0, 120, 2))
    assert campaign.candidates.tolist() == list(range(0, 120, 2))
    with pytest.raises(ValueError, match="1 configurations are asked for, and 0 of 60 are left"):
        campaign.ask(1)


def test_a_density_that_is_known_is_not_estimated() -> None:
    whole = begun()
    given = begun(density=2.0 * whole.pool_density, available=torch.arange(120) < 50)
    torch.testing.assert_close(given.pool_density, 2.0 * whole.pool_density[:50])


def test_the_order_of_labels_does_not_matter() -> None:
    one, other = begun(), begun()
    run(one, (24,))
    rows = other.ask(24)[::-1].copy()
    for part in np.split(rows, [5, 6, 20]):
        tell(other, part)
    assert one.labelled.row is not None
    assert other.labelled.row is not None
    assert one.labelled.row.tolist() == other.labelled.row.tolist()
    np.testing.assert_array_equal(other.labelled.energies, ENERGIES[one.labelled.row])
    np.testing.assert_array_equal(one.ask(10), other.ask(10))


def test_failed_rows_are_neither_learned_from_nor_asked_for_again() -> None:
    campaign = begun()
    rows = campaign.ask(20)
    energies, forces = ENERGIES[rows].copy(), FORCES[rows].copy()
    energies[0], forces[1, 2, 0] = np.nan, np.inf
    campaign.tell(rows, energies, forces)
    assert set(campaign.failed) == {*rows[:2]}
    assert (len(campaign.labelled), campaign.size, len(campaign.pending)) == (18, 18, 0)
    assert not {*rows[:2]} & {*campaign.ask(100)}
    tell(campaign, rows[:1])  # another attempt
    assert campaign.failed.tolist() == [rows[1]]


def test_labels_told_again_count_once_and_corrections_replace_them(tmp_path: Path) -> None:
    with begun(tmp_path / "campaign") as campaign:
        run(campaign, (20,))
        field, events = campaign.fit(), (tmp_path / "campaign" / "journal.jsonl").read_text()
        rows = campaign.labelled.row.numpy()  # type: ignore[union-attr]
        tell(campaign, rows[:5])
        campaign.tell(rows[:1], [np.nan], FORCES[rows[:1]])
        assert campaign.fit() is field
        assert (tmp_path / "campaign" / "journal.jsonl").read_text() == events
        campaign.tell(rows[:1], [-1.0], FORCES[rows[:1]])
        assert len(campaign.labelled) == 20
        assert campaign.labelled.energies[0] == -1.0  # type: ignore[index]
        assert campaign.fit() is not field


def test_labels_nobody_asked_for_are_welcome_and_count_in_the_density(tmp_path: Path) -> None:
    dense = begun().pool_density.argsort(descending=True).numpy()
    with begun(tmp_path / "campaign") as campaign:
        tell(campaign, dense[:15])
        density = campaign.density
        assert density[dense[:15]].mean() > 1.5 * campaign.pool_density[dense[:15]].mean()
        torch.testing.assert_close((density / campaign.pool_density).mean().item(), 1.0)
        rows = campaign.ask(5)
        assert campaign.history[0].gamma_1 is not None  # there was a force field
    with opened(tmp_path / "campaign") as again:
        assert again.pending.tolist() == rows.tolist()
        tell(again, np.setdiff1d(np.arange(8), [*dense[:15], *rows])[:3])  # few are taken to follow q
        assert torch.isfinite(again.density).all()


@pytest.mark.parametrize(
    ("rows", "energies", "forces", "message"),
    [
        ([3, 4], np.zeros(2), np.zeros((2, 3, 2)), r"forces \(2, 3, 3\), got \(2,\) and \(2, 3, 2\)"),
        ([3, 4], np.zeros(3), np.zeros((2, 3, 3)), r"energies must have shape \(2,\)"),
        ([3, 120], np.zeros(2), np.zeros((2, 3, 3)), r"those 120 of the pool's 120 .* got \[3, 120\]"),
        ([3, -1], np.zeros(2), np.zeros((2, 3, 3)), r"got \[3, -1\]"),
        (3, np.zeros(1), np.zeros((1, 3, 3)), r"rows are numbers"),
        ([3, 3], np.zeros(2), np.zeros((2, 3, 3)), "once at a time"),
    ],
)
def test_labels_that_do_not_fit_are_refused(rows: Any, energies: Any, forces: Any, message: str) -> None:
    campaign = begun()
    with pytest.raises(ValueError, match=message):
        campaign.tell(rows, energies, forces)
    assert len(campaign.labelled) == 0


def test_a_force_field_needs_labels() -> None:
    campaign = begun()
    run(campaign, (5,))
    with pytest.raises(ValueError, match="needs 10 labels, there are 5"):
        campaign.fit()
    assert campaign.history[0].gamma_1 is None
    campaign.ask(5)  # from p_0 again


@pytest.mark.parametrize(
    "settings",
    [{"test_density": "odd"}, {"exploration": 2.0}, {"seed": -1}, {"smoothness": 0.0}, {"dimension": 0.0}],
)
def test_settings_are_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"got|one of"):
        CampaignSettings(**settings)


# Folders.


def test_a_campaign_goes_on_with_its_settings_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    options: dict[str, Any] = {"settings": {"seed": 3, "test_density": "uniform", "exploration": 0.2}}
    whole, kept = begun(**options), begun(tmp_path / "campaign", **options)
    run(whole)
    run(kept, (12, 24))
    kept.close()
    with opened(tmp_path / "campaign") as again:
        run(again)
        assert again.settings == whole.settings
        assert again.history == whole.history
        torch.testing.assert_close(again.density, whole.density, rtol=0, atol=0)
    assert begun(settings={"seed": 4}).ask(12).tolist() != list(whole.history[0].indices)


def test_the_last_force_field_is_not_fitted_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with begun(tmp_path / "campaign") as campaign:
        run(campaign, (12, 24))
        campaign.fit()
    with opened(tmp_path / "campaign", fit=(fit := FakeFit())) as again:
        torch.testing.assert_close(again.complexity, campaign.complexity, rtol=0, atol=0)
    assert fit.shared == []
    (tmp_path / "campaign" / "model.lobal").write_bytes(b"spoilt")
    with caplog.at_level(logging.WARNING), opened(tmp_path / "campaign", fit=fit) as again:
        torch.testing.assert_close(again.complexity, campaign.complexity, rtol=0, atol=0)
    assert "cannot be read and is fitted again" in caplog.text
    assert len(fit.shared) == 1


def test_another_pool_is_refused(tmp_path: Path) -> None:
    begun(tmp_path / "campaign").close()
    with pytest.raises(ValueError, match=r"not the pool that campaign .* was begun with.*this has 100 of \[8, 1, 1\]"):
        opened(tmp_path / "campaign", water(100))
    with pytest.raises(ValueError, match="at other positions"):
        opened(tmp_path / "campaign", water(120, seed=1))
    unlabelled = replace(POOL, energies=None, forces=None)
    opened(tmp_path / "campaign", unlabelled).close()  # labels are no part of it, and the lock was let go


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(FileExistsError, match=r"holds notes\.txt and is no campaign"):
        begun(tmp_path)
    with pytest.raises(FileExistsError, match="is a file or holds a campaign"):
        begun(tmp_path / "notes.txt")
    Campaign.create(tmp_path / "other", {"settings": {}}).close()
    with pytest.raises(ValueError, match="not one of a force field"):
        opened(tmp_path / "other")
    with begun(tmp_path / "campaign"):
        with pytest.raises(FileExistsError, match="holds a campaign already"):
            begun(tmp_path / "campaign")
        with pytest.raises(BlockingIOError, match="in use"):
            opened(tmp_path / "campaign")


def test_a_pool_has_to_leave_a_choice() -> None:
    with pytest.raises(ValueError, match="at least 10 configurations are needed to choose from, got 4"):
        begun(available=torch.arange(120) < 4)
    with pytest.raises(ValueError, match=r"density must be one value per configuration, \(120,\), got \(3,\)"):
        begun(density=torch.ones(3, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"must be finite and above zero, got 0\.0 at row 7"):
        begun(density=(torch.arange(120, dtype=torch.float64) - 7.0).abs())


# Kills.

SMALL = POOL.at(slice(24))


def go_on(folder: Path) -> None:
    """What a campaign's process does, from the start or from where the last one died."""
    is_there = (folder / "header.json").exists()
    with opened(folder, SMALL) if is_there else begun(folder, SMALL) as campaign:
        run(campaign, (10, 15), at_once=6)
        campaign.fit()


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
    with opened(folder, SMALL) as campaign:
        labelled = campaign.labelled
    assert labelled.row is not None
    field = ForceField.load(folder / "model.lobal")
    return labelled.row.tolist(), campaign.history, campaign.fits, field.bandwidths.tolist()


def test_killed_at_any_instant_a_campaign_asks_for_the_same_rows(tmp_path: Path) -> None:
    go_on(tmp_path / "whole")
    expected = state(tmp_path / "whole")
    for kills in itertools.count():
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
