"""How Adam trains a mixture."""

import math
from dataclasses import dataclass
from typing import final

from lobal.mixture.adam.objective import Objective, elbo
from lobal.mixture.adam.responses import CovarianceModel, zero_covariance
from lobal.mixture.settings import TrainingSettings


@final
@dataclass(frozen=True, kw_only=True)
class AdamSettings(TrainingSettings):
    """How to train; defaults are the paper's for the Doppler experiment (Sec. 5.1) where it names one."""

    kappa: int = 2  # kappa, the terminal number of experts at a point
    penalty: float = 0.5  # theta
    batch_size: int = 512  # B
    learning_rate: float = 0.01  # eta_0
    hyperparameter_rate: float = 0.2  # eta_H, relative to eta
    gate_rate: float = 1.0  # eta_G, relative to eta
    gate_scale: float = 10.0  # lambda_G
    covariance: CovarianceModel = zero_covariance  # S while training
    gate_noise: float = 0.1  # s_0, standard deviation of the noise on the channels
    gate_noise_decay: float = math.sqrt(0.5)  # eta_s, per epoch
    objective: Objective = elbo
    # The paper halves eta "as soon as the validation performance gets stuck": no improvement for this many epochs.
    patience: int = 10
    smallest_rate: float = 1e-3  # training ends when eta falls below this share of eta_0
    # The paper does not say when kappa falls; one expert fewer every 2, 5 or 10 epochs gave similar results.
    epochs_per_kappa: int = 5
    # An epoch is a pass over the data, or over this many points if there are more.
    epoch_size: int = 8192
    max_epochs: int = 2000

    def __post_init__(self) -> None:
        positive = (
            "kappa",
            "batch_size",
            "learning_rate",
            "patience",
            "epochs_per_kappa",
            "max_epochs",
            "epoch_size",
            "gate_scale",
        )
        for name in positive:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must exceed zero, got {getattr(self, name)!r}")
        for name in ("penalty", "hyperparameter_rate", "gate_rate", "gate_noise"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be at least zero and finite, got {getattr(self, name)!r}")
        for name in ("gate_noise_decay", "smallest_rate"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must lie between zero and one, got {getattr(self, name)!r}")

    @property
    def rates(self) -> tuple[float, float, float, float]:
        """Learning rates of inducing values, hyperparameters, the gate's values and the gate's means."""
        eta, eta_H, eta_G = self.learning_rate, self.hyperparameter_rate, self.gate_rate
        return eta, eta_H * eta, eta_G * eta, eta_H * eta_G * eta
