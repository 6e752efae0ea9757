"""The settings that grown force fields are compared by; that the experiment runs is shown by its smoke scale."""

from pathlib import Path

import pytest

from experiments.forcefield_grow import GATES, Trial
from lobal.molecules.dynamics.campaign import FIELD
from tests.experiments.setting import invoke

MOLECULE = Path("examples/molecules/malonaldehyde.xyz")


@pytest.mark.parametrize("gate", GATES)
def test_the_gate_is_that_of_the_option_and_everything_else_that_of_campaigns(gate: str) -> None:
    trial = Trial(
        molecule=MOLECULE,
        oracle="gfn2",
        first=20,
        test_frames=20,
        settle=20,
        configurations=200,
        arms=(),
        picoseconds=0.0,
        workers=1,
        folder=None,
        device="cpu",
        gate=gate,
    )
    field = trial.field
    assert (field.softmax_gate is None) == (gate == "ordinal")
    assert (field.bandwidths, field.anisotropy_loss) == (FIELD.bandwidths, "rmse")


def test_campaigns_have_the_papers_gate() -> None:
    assert FIELD.softmax_gate is not None


def test_a_gate_of_another_name_is_refused(tmp_path: Path) -> None:
    result = invoke("forcefield_grow", MOLECULE, "--gate", "softmx", "--output", tmp_path / "errors.json")
    assert result.exit_code == 2
    assert "softmx" in result.output
    assert not (tmp_path / "errors.json").exists()
