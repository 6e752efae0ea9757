"""Largest cluster maximum distance (LCMD) of bmdal-reg, by the protocol of its paper (Holzmueller et al., 2023)."""

import io
import math
import warnings
from contextlib import redirect_stdout
from types import ModuleType
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from lobal.active.draws import DrawTask
from lobal.baselines.shortlist import LARGEST, Shortlist, chosen, required

SKETCH = 512  # random features of the gradients, "grad_rp-512" of the paper
BATCH = 256  # labels per gradient step, as in the paper
STEPS = 256  # the paper's 256 epochs at its first 256 labels; with more labels it trains longer


def lcmd(task: DrawTask, *, steps: int = STEPS) -> Int[Tensor, " b"]:
    """Points far from all before them, in the largest clusters, by the gradients of a network fitted to the labels.

    The network is bmdal-reg's, trained for so many gradient `steps`. Pending points count as chosen.
    """
    select_batch, data = (
        bmdal_module("bmdal.algorithms").select_batch,
        bmdal_module("bmdal.feature_data").TensorFeatureData,
    )

    def choice(shortlist: Shortlist) -> Int[ndarray, " b"]:
        scaled = shortlist.standardised()
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():  # it prints a dot for every epoch
            warnings.filterwarnings("ignore", message="Full backward hook is firing")  # for the first layer, rightly
            rows, _ = select_batch(
                batch_size=shortlist.b,
                models=[_network(scaled, steps)],
                data={"train": data(_clipped(scaled.known)), "pool": data(_clipped(scaled.X))},
                y_train=None,
                base_kernel="grad",
                kernel_transforms=[("rp", [SKETCH])],
                selection_method="lcmd",
            )
        return np.asarray(rows.numpy())

    return chosen(task, choice, most=LARGEST)


def bmdal_module(module: str) -> Any:  # noqa: ANN401 - a module without types
    """A module of bmdal-reg, whose training and selection get a NumPy that they can use."""
    for name in ("train", "bmdal.selection"):
        vars(required(f"bmdal_reg.{name}", "bmdal-reg"))["np"] = _numpy_with_inf()
    return required(f"bmdal_reg.{module}", "bmdal-reg")


def _numpy_with_inf() -> ModuleType:
    """NumPy with `Inf`, which bmdal-reg 3.0 uses and NumPy 2 has not: a copy, so that NumPy itself stays as it is."""
    copy = ModuleType("numpy")
    vars(copy).update(vars(np), Inf=np.inf)
    return copy


def _clipped(X: Float[ndarray, "n d"]) -> Float[Tensor, "n d"]:
    """Standardised inputs as the paper passes them to its networks: softly clipped at five."""
    return torch.from_numpy(5.0 * np.tanh(0.2 * X)).float()


def _network(scaled: Shortlist, steps: int) -> torch.nn.Module:
    """bmdal-reg's network, with its own defaults, fitted to the labels."""
    inputs = _clipped(scaled.labelled)
    epochs = math.ceil(steps / max(1, len(inputs) // BATCH))
    regressor = bmdal_module("nn_interface").NNRegressor(
        batch_size=BATCH, n_epochs=epochs, preprocess_data=False, device="cpu", seed=scaled.seed
    )
    regressor.fit(inputs, torch.from_numpy(scaled.y).float())
    network: torch.nn.Module = regressor.model_.get_single_model(0)
    return network
