import pytest
import torch
from torch import Tensor

from lobal.molecules.field.labels import LabelledMolecules, Labels, split_labels
from tests.molecules.setting import pair_potential, random_molecules


@pytest.mark.parametrize(("labels", "width"), [(Labels.ENERGIES, 1), (Labels.FORCES, 12), (Labels.BOTH, 13)])
def test_labels_joined_come_apart_again(labels: Labels, width: int, generator: torch.Generator) -> None:
    R = random_molecules(generator, 3)
    energies, forces = pair_potential(R)
    joined = LabelledMolecules.at(R, energies=energies, forces=forces).residual(labels, energies.new_tensor(5.0))
    assert joined.shape == (3, width) == (3, labels.width(4))
    apart = split_labels(joined.flatten()[None], labels, 4)
    torch.testing.assert_close(apart.energies[0], labels.energies * (energies - 5.0))
    torch.testing.assert_close(apart.forces[0], labels.forces * forces)


@pytest.mark.parametrize(
    ("energies", "forces", "message"),
    [
        (torch.ones(3, 1), torch.ones(3, 4, 3), r"energies must have shape \(3,\), got \(3, 1\)"),
        (torch.ones(3), torch.ones(3, 12), r"forces must have shape \(3, 4, 3\), got \(3, 12\)"),
        (
            torch.tensor([1.0, torch.nan, 1.0]),
            torch.ones(3, 4, 3),
            "energies must be finite, got nan at configuration 1",
        ),
    ],
)
def test_labels_that_do_not_fit_are_refused(
    energies: Tensor, forces: Tensor, message: str, generator: torch.Generator
) -> None:
    with pytest.raises(ValueError, match=message):
        LabelledMolecules.at(random_molecules(generator, 3), energies=energies, forces=forces)
