from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from lobal.experts.svgp import DiagonalCovariance
from lobal.mixture.storage import mixture_from, mixture_tensors
from tests.mixture.test_fit import ANALYTIC, QUICK, data, fit

VARIANTS: dict[str, dict[str, Any]] = {
    "refitted": {},
    "trained": {"refit": False},
    "diagonal": {"refit": False, "training": replace(QUICK, covariance=DiagonalCovariance)},
    "exact": {"exact": True},
    "ordinal": {"training": ANALYTIC},
    "ordinal, exact": {"training": ANALYTIC, "exact": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_mixture_survives_being_taken_apart(variant: str) -> None:
    mixture = fit(data(), **VARIANTS[variant]).mixture
    back = mixture_from(*mixture_tensors(mixture))
    X = torch.rand(20, 1).double()
    for before, after in zip(mixture.predict(X), back.predict(X), strict=True):
        assert torch.allclose(before, after, rtol=1e-9)
    assert torch.equal(mixture.gate(X), back.gate(X))
    assert type(back.gate) is type(mixture.gate)


@pytest.mark.parametrize(("training", "attribute"), [(QUICK, "kappa"), (ANALYTIC, "n_experts")])
def test_every_attribute_of_a_gate_survives(training: Any, attribute: str) -> None:
    mixture = fit(data(), training=training).mixture
    back = mixture_from(*mixture_tensors(mixture))
    for field in fields(mixture.gate):
        before, after = getattr(mixture.gate, field.name), getattr(back.gate, field.name)
        if isinstance(before, torch.Tensor):
            assert torch.equal(before, after)
    assert getattr(back.gate, attribute) == getattr(mixture.gate, attribute)


def test_the_tensors_share_no_memory_with_the_model() -> None:
    mixture = fit(data()).mixture
    tensors, _ = mixture_tensors(mixture)
    assert tensors["bandwidths"].data_ptr() != mixture.bandwidths.data_ptr()


def test_exact_experts_are_saved_without_their_factors_and_come_back_to_the_bit() -> None:
    mixture = fit(data(), training=ANALYTIC, exact=True).mixture
    tensors, fields = mixture_tensors(mixture)
    experts = {name.removeprefix("experts.") for name in tensors if name.startswith("experts.")}
    assert experts == {"inputs", "labels", "bandwidths", "shared", "mean", "scale", "noise"}
    X = torch.rand(20, 1).double()
    for before, after in zip(mixture.predict(X), mixture_from(tensors, fields).predict(X), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("variant", ["refitted", "ordinal"])
def test_sparse_experts_are_saved_without_what_can_be_computed_again_and_come_back_to_the_bit(variant: str) -> None:
    mixture = fit(data(), **VARIANTS[variant]).mixture
    tensors, fields = mixture_tensors(mixture)
    assert not [name for name in tensors if name.endswith("factor")]
    n_experts, m, _ = mixture.experts.covariance.root.shape
    assert tensors["experts.covariance.root"].shape == (n_experts, m * (m + 1) // 2)
    X = torch.rand(20, 1).double()
    for before, after in zip(mixture.predict(X), mixture_from(tensors, fields).predict(X), strict=True):
        assert torch.equal(before, after)


def test_factors_that_would_be_others_are_saved() -> None:
    mixture = fit(data(), training=ANALYTIC).mixture
    features = replace(mixture.experts.features, factor=mixture.experts.features.factor * 1.5)
    changed = replace(mixture, experts=replace(mixture.experts, features=features))
    tensors, fields = mixture_tensors(changed)
    X = torch.rand(20, 1).double()
    assert torch.equal(mixture_from(tensors, fields).mean(X), changed.mean(X))


def test_files_that_have_the_factors_are_read() -> None:
    mixture = fit(data(), training=ANALYTIC, exact=True).mixture
    tensors, fields = mixture_tensors(mixture)
    earlier = {f"experts.{name}": getattr(mixture.experts, name) for name in ("factor", "weights")}
    X = torch.rand(20, 1).double()
    assert torch.equal(mixture_from(tensors | earlier, fields).mean(X), mixture.mean(X))
