"""What every space and every surrogate has to fulfil: suites to inherit from, with the fixtures they name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal.active.campaign.steps import CANDIDATES, SURROGATES, resolved
from lobal.active.candidates import Candidates
from lobal.active.spaces import Space
from lobal.active.surrogate import FitTask, FittedSurrogate, Surrogate
from lobal.core.density import norm


class SpaceContract:
    """Fixtures: `space`, `labels` (a function that makes good labels of n points)."""

    @pytest.fixture
    def candidates(self, space: Space) -> Candidates:
        return space.candidates(0)

    def test_densities_are_positive_and_at_equal_norm(self, candidates: Candidates) -> None:
        assert (candidates.pool_density > 0.0).all()
        for density in (candidates.test_density, candidates.initial_density):
            assert density.shape == (len(candidates),)
            assert norm(density, candidates.pool_density) == pytest.approx(1.0)

    def test_coordinates_and_parts_cover_all_candidates_in_order(self, candidates: Candidates) -> None:
        assert len(candidates.X) == len(candidates)
        rows = [row for part, inputs in candidates.parts() for row in range(len(candidates))[part] if len(inputs)]
        assert rows == list(range(len(candidates)))

    def test_points_are_placed_and_located_again(self, candidates: Candidates) -> None:
        indices = torch.tensor([3, 0, 5])
        inputs = candidates.place(indices, generator=torch.Generator().manual_seed(0))
        assert inputs.shape == (3, candidates.n_columns)
        numbers, again = candidates.locate(candidates.batch(indices.numpy(), inputs))
        np.testing.assert_array_equal(again, inputs)
        assert candidates.is_box or numbers == [3, 0, 5]
        assert len(candidates.model_inputs(indices.numpy(), inputs)) == 3

    def test_no_points_are_located_as_none(self, candidates: Candidates) -> None:
        assert candidates.locate([])[0] == []

    @pytest.mark.parametrize("batch", [[10**9], ["a"], [None], [[1, 2], [3]]], ids=str)
    def test_strange_points_are_refused(self, candidates: Candidates, batch: Any) -> None:
        with pytest.raises(ValueError, match="got"):
            candidates.locate(batch)

    def test_labels_are_one_entry_a_point_and_refused_otherwise(self, candidates: Candidates, labels: Any) -> None:
        assert len(candidates.labels(labels(4), 4, name="labels")) == 4
        with pytest.raises(ValueError, match="labels"):
            candidates.labels(labels(4), 5, name="labels")

    def test_a_seed_and_a_step_repeat_the_draws(self, candidates: Candidates) -> None:
        draws = [candidates.generator(seed, step).initial_seed() for seed, step in ((1, 2), (1, 2), (1, 3), (2, 2))]
        assert draws[0] == draws[1]
        assert len({*draws}) == 3

    def test_the_intrinsic_dimension_lies_between_one_and_the_columns(self, candidates: Candidates) -> None:
        assert 1.0 <= candidates.intrinsic_dimension(0) <= candidates.X.shape[1]

    def test_the_density_of_some_candidates_is_largest_among_them(self, candidates: Candidates) -> None:
        order = np.argsort(np.asarray(candidates.X)[:, 0])
        chosen = order[: len(order) // 4]
        inputs = candidates.place(torch.as_tensor(chosen), generator=torch.Generator().manual_seed(0))
        density = candidates.density_of(chosen.tolist(), inputs, 0)
        assert (density >= 0.0).all()
        assert density[chosen].mean() > density[order[-len(chosen) :]].mean()

    def test_a_point_is_its_own_nearest_neighbour(self, candidates: Candidates) -> None:
        numbers = list(range(0, len(candidates), 3))
        generator = torch.Generator().manual_seed(0)
        points = numbers, candidates.place(torch.tensor(numbers), generator=generator)
        nearest = candidates.neighbours(points, points, 2)
        assert nearest.shape == (len(numbers), 2)
        np.testing.assert_array_equal(nearest[:, 0], np.arange(len(numbers)))

    def test_candidates_saved_and_loaded_are_the_same(self, candidates: Candidates) -> None:
        tensors, fields = candidates.to_tensors()
        again = resolved(CANDIDATES, candidates.kind).from_tensors(tensors, fields, None)
        assert torch.equal(again.pool_density, candidates.pool_density)
        assert torch.equal(again.test_density, candidates.test_density)
        assert torch.equal(again.initial_density, candidates.initial_density)
        np.testing.assert_array_equal(again.X, candidates.X)

    def test_the_default_surrogate_is_one_that_a_header_can_name(self, space: Space) -> None:
        surrogate = space.default_surrogate()
        assert isinstance(surrogate, resolved(SURROGATES, surrogate.kind))


class SurrogateContract:
    """Fixtures: `surrogate` and `task`, a `FitTask` that it learns from within seconds."""

    @pytest.fixture
    def fitted(self, surrogate: Surrogate, task: FitTask) -> FittedSurrogate:
        return surrogate.fit(task)

    def test_predictions_have_the_shape_of_labels(self, fitted: FittedSurrogate, task: FitTask) -> None:
        predicted = fitted.predict(task.X)
        assert predicted.shape == task.y.shape
        assert np.square(predicted - task.y).mean() < np.square(task.y - task.y.mean(0)).mean()

    def test_bandwidth_and_noise_are_positive_numbers_at_every_input(
        self, fitted: FittedSurrogate, task: FitTask
    ) -> None:
        for values in (fitted.local_bandwidth(task.X), fitted.noise_variance(task.X)):
            assert values.shape == (len(task.X),)
            assert (values > 0.0).all()
            assert np.isfinite(values).all()

    def test_the_same_task_gives_the_same_model(self, surrogate: Surrogate, task: FitTask) -> None:
        first, second = (surrogate.fit(task).predict(task.X) for _ in range(2))
        np.testing.assert_array_equal(first, second)

    def test_a_saved_model_says_the_same(
        self, surrogate: Surrogate, fitted: FittedSurrogate, task: FitTask, tmp_path: Path
    ) -> None:
        fitted.save(tmp_path / "model")
        again = surrogate.load(tmp_path / "model")
        np.testing.assert_allclose(again.predict(task.X), fitted.predict(task.X), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(again.local_bandwidth(task.X), fitted.local_bandwidth(task.X), rtol=1e-9)
        assert again.validation_error == fitted.validation_error

    def test_a_damaged_file_is_refused(self, surrogate: Surrogate, tmp_path: Path) -> None:
        (tmp_path / "model").write_bytes(b"spoilt")
        with pytest.raises(ValueError, match="model"):
            surrogate.load(tmp_path / "model")

    def test_settings_describe_the_surrogate(self, surrogate: Surrogate) -> None:
        again = type(surrogate).from_settings(surrogate.to_settings())
        assert again.to_settings() == surrogate.to_settings()
        assert again.changed_options == surrogate.changed_options

    def test_what_a_fit_keeps_is_tensors_that_the_next_one_takes(
        self, surrogate: Surrogate, fitted: FittedSurrogate, task: FitTask
    ) -> None:
        kept = fitted.kept()
        assert all(isinstance(tensor, torch.Tensor) for tensor in kept.values())
        assert surrogate.fit(FitTask(**{**vars(task), "kept": kept})).predict(task.X).shape == task.y.shape
