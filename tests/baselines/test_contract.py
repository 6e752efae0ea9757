"""What every design promises, by its name."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from lobal.active.draws import DRAWS, DrawTask, design
from tests.baselines.setting import PACKAGES, candidates, task, with_its_package
from tests.learner_setting import bumpy, learner

every_design = pytest.mark.parametrize("name", PACKAGES)
every_kind = pytest.mark.parametrize("kind", ["pool", "box", "repeated"])


def drawn(name: str, given: DrawTask) -> list[int]:
    numbers: list[int] = design(with_its_package(name))(given).tolist()
    return numbers


def test_all_designs_of_the_room_are_tested() -> None:
    assert {name for name, place in DRAWS.items() if "baselines" in place} == set(PACKAGES)


@every_kind
@every_design
def test_different_candidates_of_positive_weight_that_were_not_drawn_before(name: str, kind: str) -> None:
    given = task(kind)
    chosen = drawn(name, given)
    assert len(set(chosen)) == 8
    assert (given.weights[chosen] > 0).all()
    assert not set(chosen) & set(given.drawn[0])


@every_design
def test_a_seed_repeats_the_choice_and_leaves_global_seeds_as_they_were(name: str) -> None:
    chosen = []
    for global_seed in (1, 2):
        np.random.seed(global_seed)  # noqa: NPY002 - the generator in question
        torch.manual_seed(global_seed)
        before = global_state()
        chosen.append(drawn(name, task("repeated", seed=7)))
        assert global_state() == before
    assert chosen[0] == chosen[1]


def global_state() -> tuple[list[int], list[int]]:
    state = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    return [*state["key"].tolist(), state["pos"]], torch.get_rng_state().tolist()


@every_kind
@every_design
def test_all_candidates_that_are_left_can_be_asked_for(name: str, kind: str) -> None:
    assert sorted(drawn(name, task(kind, b=65))) == list(range(35, 100))
    assert len(set(drawn(name, task(kind, b=64)))) == 64


@every_design
def test_a_cell_of_a_box_is_taken_again_only_where_no_others_are_left(name: str) -> None:
    assert len(set(drawn(name, task("box", b=99)))) == 99
    assert len(drawn(name, task("box", b=130))) == 130
    with pytest.raises(ValueError, match="between 1 and 65 candidates can be drawn"):
        drawn(name, task("pool", b=66))


@every_design
def test_points_are_random_before_there_is_a_model(name: str) -> None:
    given = replace(task(), fitted=None)
    heavy = torch.zeros(120, dtype=torch.float64)
    heavy[50:60] = 1.0
    assert set(drawn(name, replace(given, weights=heavy))) <= set(range(50, 60))


@every_design
def test_many_candidates_are_thinned_by_the_test_density(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[design(with_its_package(name)).__module__]
    for limit in ("LARGEST", "LARGEST_KL", "LARGEST_MIXTURE"):
        monkeypatch.setattr(module, limit, 16, raising=False)
    given = task(b=4)
    density = torch.full((120,), 1e-12, dtype=torch.float64)
    density[60:76] = 1.0
    wanted = replace(given.candidates, test_density=density)
    assert set(drawn(name, replace(given, candidates=wanted))) <= set(range(60, 76))


@every_design
def test_designs_that_look_at_one_label_refuse_rows_of_them(name: str) -> None:
    given = task()
    forces = given.labelled._replace(y=np.zeros((30, 6)))
    with pytest.raises(ValueError, match=r"labels that are single numbers, got labels of shape \(6,\)"):
        drawn(name, replace(given, labelled=forces))


@pytest.mark.parametrize("name", [name for name, package in PACKAGES.items() if package])
def test_a_missing_package_is_named_before_any_label_is_asked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package = PACKAGES[name]
    for module in [module for module in sys.modules if package and module.startswith(package)]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, str(package), None)
    real = {"skactiveml": "scikit-activeml", "bmdal_reg": "bmdal-reg", "botorch": "botorch"}[str(package)]
    with pytest.raises(ModuleNotFoundError, match=rf"the package {real}, .*pip install 'lobal\[baselines\]'"):
        design(name)(replace(task(), fitted=None))


@pytest.mark.parametrize("name", ["gsx", "mogpu"])
def test_a_learner_takes_a_design_by_its_name(name: str) -> None:
    active = learner(draw=with_its_package(name))
    first = active.ask(20)
    active.tell(first, bumpy(active.candidates.X[first]))
    second, third = active.ask(10), active.ask(10)
    assert len({*first, *second, *third}) == 40


def test_the_setting_has_rows_that_are_repeated() -> None:
    X = candidates("repeated").X
    assert len(np.unique(X, axis=0)) == 40
    assert X[:, 1].std() == 0.0
