import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.softmax_options import SoftmaxGateOptions

SETTINGS = ForceFieldSettings(bandwidths=(0.25, 0.5, 1.0), inducing=15, anisotropy="free", labels=None)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kernel": "cubic"}, "kernel of a force field must be one of"),
        ({"labels": "dipoles"}, "labels must be one of energies, forces, both, got 'dipoles'"),
        ({"bandwidths": (1.0,)}, "bandwidths must be two or more"),
        ({"bandwidths": (2.0, 1.0)}, "positive and increasing"),
        ({"bandwidths": (0.5, float("nan"))}, "positive and increasing"),
        ({"anisotropy": "tight"}, "anisotropy must be None or one of tied, free, got 'tight'"),
        ({"noise": 0.0}, "noise must be positive and finite, got 0.0"),
        ({"gate_widths": ()}, "gate_widths must be positive and finite"),
        ({"gate_scales": (1.0, 0.0)}, "gate_scales must be positive and finite"),
        ({"inducing": 0}, "inducing must be at least 1, got 0"),
        ({"anisotropy_size": 0}, "anisotropy_size must be at least 1, got 0"),
        ({"anisotropy_folds": -1}, "anisotropy_folds must be at least 1"),
        ({"anisotropy_loss": "mae"}, "anisotropy_loss must be one of mse, rmse, got 'mae'"),
        ({"gate_inducing": 0}, "gate_inducing must be at least 1"),
        ({"softmax_gate": SoftmaxGateOptions(), "mixture": False}, "with mixture=False, pass softmax_gate=None"),
        ({"softmax_gate": SoftmaxGateOptions(), "gate_scales": (1.0,)}, "gate_scales is an option of the ordinal gate"),
        ({"preset": "thesis"}, r"preset must be None or one of \['paper'\], got 'thesis'"),
    ],
)
def test_wrong_settings_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SETTINGS, **changed)


def test_settings_survive_json() -> None:
    for settings in (SETTINGS, replace(SETTINGS, softmax_gate=SoftmaxGateOptions(sparsity=2, penalty=0.0))):
        assert ForceFieldSettings.from_fields(json.loads(json.dumps(asdict(settings)))) == settings
    with pytest.raises(ValueError, match=r"settings\.softmax_gate\.scale must be a number"):
        ForceFieldSettings.from_fields(asdict(SETTINGS) | {"softmax_gate": {"scale": -1.0}})
    unknown = ForceFieldSettings.from_fields({"unknown": 1, "softmax_gate": {"unknown": 1, "sparsity": 3}})
    assert unknown == ForceFieldSettings(softmax_gate=SoftmaxGateOptions(sparsity=3))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sparsity": 0}, "sparsity must be a whole number, at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be a whole number, at least 1, got 0"),
        ({"width": 0.0}, "width must be positive and finite, got 0"),
        ({"penalty": -0.1}, "penalty must be at least zero and finite, got -0.1"),
        ({"gate_rate": float("inf")}, "gate_rate must be at least zero and finite"),
    ],
)
def test_wrong_options_of_the_softmax_gate_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SoftmaxGateOptions(**changed)


def test_settings_of_the_first_version_are_read() -> None:
    gate = {"inducing": 12, "widths": [4.0, 1.0], "scales": [0.5]}
    before = {"kernel": "matern52", "labels": "BOTH", "bandwidths": [0.5, 1.0], "mixture": True, "sparse": 20}
    before |= {"anisotropic": True, "inducing": 8, "folds": 3, "noise": 1e-6, "gate": gate, "device": None}
    assert ForceFieldSettings.from_fields(before) == ForceFieldSettings(
        kernel="matern52",
        bandwidths=(0.5, 1.0),
        inducing=20,
        anisotropy_size=8,
        anisotropy_folds=3,
        noise=1e-6,
        gate_inducing=12,
        gate_widths=(4.0, 1.0),
        gate_scales=(0.5,),
    )
    assert ForceFieldSettings.from_fields(before | {"anisotropic": False}).anisotropy is None


def test_the_preset_sets_what_the_paper_sets_and_options_beside_it_win() -> None:
    ladder = (0.5946, 0.8409, 1.1892, 1.6818, 2.3784, 3.3636, 4.7568, 6.7272)  # 2^(-5/4 + j/2), j = 1 ... 8
    paper = ForceFieldSettings(preset="paper", device="cpu")
    assert paper.bandwidths == pytest.approx(ladder, abs=1e-4)
    assert (paper.anisotropy, paper.anisotropy_size, paper.inducing) == ("free", 128, None)
    assert (paper.noise, paper.gate_inducing, paper.labels, paper.kernel) == (1e-9, 1024, "both", "gaussian")
    assert paper.softmax_gate == SoftmaxGateOptions()
    assert ForceFieldSettings(preset="paper", softmax_gate=None).softmax_gate is None
    assert ForceFieldSettings(preset="paper", anisotropy="tied").anisotropy == "tied"
    assert replace(paper, gate_inducing=64).gate_inducing == 64
    assert ForceFieldSettings.from_fields(json.loads(json.dumps(asdict(paper)))) == paper
