from pathlib import Path

import torch

from lobal.molecules.geometry.extended_xyz import frame_text
from lobal.molecules.geometry.trajectory import read_trajectory
from tests.molecules.setting import water


def test_frames_written_one_after_the_other_are_read_as_a_trajectory(tmp_path: Path) -> None:
    from ase.io import read

    trajectory, path = water(3), tmp_path / "water.xyz"
    assert trajectory.energies is not None
    assert trajectory.forces is not None
    for row in range(3):
        text = frame_text(
            trajectory.species,
            trajectory.R[row],
            float(trajectory.energies[row]),
            trajectory.forces[row],
            {"time": 0.5 * row, "walker": row},
        )
        with path.open("a") as file:
            file.write(text)
    found = read_trajectory(path)
    assert torch.equal(found.species, trajectory.species)
    for name in ("R", "energies", "forces"):
        torch.testing.assert_close(getattr(found, name), getattr(trajectory, name), rtol=0.0, atol=1e-9)
    assert [frame.info["time"] for frame in read(path, ":")] == [0.0, 0.5, 1.0]
