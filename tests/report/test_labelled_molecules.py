import json
import re
from importlib.resources import files

import numpy as np
import pytest
import torch
from torch import Tensor

from lobal.report import labelled_molecules
from lobal.report.labelled_molecules import (
    COMPLEX,
    FORM,
    IN_ORDER,
    MOST_COMPLEX,
    MOST_SHOWN,
    OTHERS,
    shown_labels,
    turned_alike,
    viewer_block,
    viewer_data,
)
from tests.molecules.setting import random_molecules, rotation
from tests.report.grown_setting import chain, grown_campaign
from tests.report.outline import Outline

SCRIPT = files("lobal.report").joinpath("molecule_viewer.js").read_text(encoding="utf-8")
CHAINS = chain(np.linspace([60.0, -60.0], [180.0, 180.0], 6))


def handedness(R: Tensor) -> Tensor:
    """The sign of the volume that four atoms span: that of mirror images is the opposite."""
    signs: Tensor = torch.linalg.det(R[:, 1:4] - R[:, :1]).sign()
    return signs


def proper(generator: torch.Generator) -> Tensor:
    """A random rotation that mirrors nothing."""
    Q = rotation(generator)
    turn: Tensor = Q * torch.linalg.det(Q)
    return turn


def scripts(page: str) -> list[str]:
    return re.findall("<script[^>]*>(.*?)</script>", page, flags=re.DOTALL)


def test_configurations_that_are_turned_and_moved_lie_upon_each_other(generator: torch.Generator) -> None:
    (R,) = random_molecules(generator, 1, N=5)
    moved = torch.stack([R @ proper(generator) + torch.randn(3, dtype=R.dtype, generator=generator) for _ in range(4)])
    found = turned_alike(moved, R)
    torch.testing.assert_close(found, found[:1].expand(4, -1, -1))
    torch.testing.assert_close(torch.cdist(found, found), torch.cdist(moved, moved))
    torch.testing.assert_close(found.mean(1), torch.zeros(4, 3, dtype=R.dtype))


@pytest.mark.parametrize("seed", range(6))
def test_the_rotation_is_the_one_that_brings_atoms_nearest(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    R = random_molecules(generator, 2, N=5) @ rotation(generator)  # mirrored or not
    reference, found = turned_alike(R, R[0])
    product = found.T @ reference  # nearest among rotations: symmetric, with at most its least eigenvalue below zero
    torch.testing.assert_close(product, product.T)
    assert torch.linalg.eigvalsh(product)[1] > 0.0


def test_no_configuration_is_mirrored(generator: torch.Generator) -> None:
    R = random_molecules(generator, 3, N=5)
    both = torch.cat([R, R * torch.tensor([1.0, 1.0, -1.0])])
    for reference in both:
        assert torch.equal(handedness(turned_alike(both, reference)), handedness(both))


def test_the_reference_lies_flat(generator: torch.Generator) -> None:
    (R,) = random_molecules(generator, 1, N=5)
    for reference in (R, R * torch.tensor([1.0, 1.0, -1.0]), R @ proper(generator)):
        spread = turned_alike(reference[None], reference)[0].T.cov()
        torch.testing.assert_close(spread, spread.diag().diag())
        assert spread[0, 0] > spread[1, 1] > spread[2, 2]


@pytest.mark.parametrize("atoms", [1, 2, 3])
def test_molecules_in_a_line_lie_along_x(atoms: int, generator: torch.Generator) -> None:
    R = torch.arange(atoms, dtype=torch.float64)[None, :, None] * torch.randn(
        4, 1, 3, dtype=torch.float64, generator=generator
    )
    found = turned_alike(R, R[0])
    torch.testing.assert_close(found[:, :, 1:], torch.zeros(4, atoms, 2, dtype=torch.float64))
    torch.testing.assert_close(found.norm(dim=2), (R - R.mean(1, keepdim=True)).norm(dim=2))


def test_some_labels_are_shown_from_the_first_to_the_last_and_the_most_complex_ones(rng: np.random.Generator) -> None:
    complexity = rng.random(500)
    orders = shown_labels(500, complexity)
    assert len(orders[IN_ORDER]) == MOST_SHOWN
    assert (orders[IN_ORDER][0], orders[IN_ORDER][-1]) == (0, 499)
    assert set(np.diff(orders[IN_ORDER])) == {8, 9}
    np.testing.assert_array_equal(complexity[orders[COMPLEX]], np.sort(complexity)[::-1][:MOST_COMPLEX])
    assert shown_labels(1, np.ones(1)) == {IN_ORDER: [0], COMPLEX: [0]}


def test_every_configuration_says_what_is_known_of_it() -> None:
    complexity = np.array([0.5, 1.234, 1.0, 2.0, 8.0, 1.0])
    frames = viewer_data(grown_campaign(CHAINS, complexity=complexity))["frames"]
    assert [frame["label"] for frame in frames] == [1, 2, 3, 4, 5, 6]
    assert [frame["round"] for frame in frames] == [0, 0, 0, 0, 1, 1]
    assert [frame["energy"] for frame in frames] == [0, 200, 400, 600, 800, 1000]
    assert [frame["complexity"] for frame in frames] == [0.5, 1.2, 1.0, 2.0, 8.0, 1.0]
    unknown = viewer_data(grown_campaign(CHAINS, rounds=()))["frames"]
    assert {frame["round"] for frame in unknown} == {None}


def test_orders_name_the_frames_that_they_show() -> None:
    R = chain(np.linspace([60.0], [180.0], 200))
    data = viewer_data(grown_campaign(R, complexity=np.linspace(1.0, 2.0, 200)))
    shown = {name: [data["frames"][place]["label"] for place in order] for name, order in data["orders"].items()}
    assert shown[COMPLEX] == [*range(200, 180, -1)]
    assert shown[IN_ORDER][:2] == [1, 4]
    assert len(data["frames"]) < 80
    assert data["total"] == 200


def test_atoms_have_names_colours_and_bonds() -> None:
    campaign = grown_campaign(CHAINS.flip(0))
    assert viewer_data(campaign)["bonds"] == [[0, 1], [1, 2], [2, 3], [3, 4]]
    campaign.species[4] = 25  # manganese, which has no colour of its own
    data = viewer_data(campaign)
    assert data["names"] == ["C0", "C1", "C2", "C3", "Mn4"]
    assert data["colours"]["Mn"] == OTHERS
    assert data["radii"][4] > data["radii"][0] > 0.3


def test_a_molecule_of_two_atoms_has_a_view() -> None:
    R = torch.tensor([[[0.0, 0.0, 0.0], [0.0, 0.0, x]] for x in (1.4, 1.5)], dtype=torch.float64)
    data = json.loads(scripts(viewer_block(grown_campaign(R)))[0])
    assert [frame["R"] for frame in data["frames"]] in (
        [[[-0.7, 0.0, 0.0], [0.7, 0.0, 0.0]], [[-0.75, 0.0, 0.0], [0.75, 0.0, 0.0]]],
        [[[0.7, 0.0, 0.0], [-0.7, 0.0, 0.0]], [[0.75, 0.0, 0.0], [-0.75, 0.0, 0.0]]],
    )


def test_data_cannot_break_out_of_its_script(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["</script><script>alert(1)</script>", "<!--<script>", "</SCRIPT>", "\"'&", "]]>"]
    monkeypatch.setattr(labelled_molecules, "atom_names", lambda _: names)
    monkeypatch.setattr(labelled_molecules, "symbol_of", lambda _: names[0])
    block = viewer_block(grown_campaign(CHAINS))
    data, script = scripts(block)
    assert json.loads(data)["names"] == names
    assert script.strip() == SCRIPT.strip()
    assert Outline(block).open == []
    assert "<" not in data


def test_the_script_of_the_view_is_part_of_the_package() -> None:
    assert '"use strict"' in SCRIPT
    assert "</script" not in SCRIPT.lower()
    assert scripts(viewer_block(grown_campaign(CHAINS)))[1].strip() == SCRIPT.strip()


def test_the_script_asks_for_nothing_from_elsewhere() -> None:
    for way in ("http", "fetch(", "XMLHttpRequest", "import", "WebSocket", "sendBeacon", "new Image", "eval(", ".src"):
        assert way not in SCRIPT


def test_every_button_does_something() -> None:
    deeds = SCRIPT.partition("const deeds = {")[2].partition("};")[0]
    wanted = re.findall('data-do="(.*?)"', FORM)
    assert len(wanted) == 5
    assert all(re.search(rf"\b{name}: \(\) =>", deeds) for name in wanted)


def test_the_slider_has_a_place_for_every_configuration_of_an_order() -> None:
    block = viewer_block(grown_campaign(CHAINS))
    assert '<input type="range" min="0" max="5" value="0"' in block
    assert [name in block for name in (IN_ORDER, COMPLEX)] == [True, True]
    assert block.count("<option") == 2
