"""How Adam trains a mixture."""

import math
from dataclasses import dataclass
from typing import final

from lobal.experts.svgp import InducingCovariance, ZeroCovariance
from lobal.mixture.adam.objective import Objective, elbo
from lobal.mixture.settings import TrainingSettings


@final
@dataclass(frozen=True, kw_only=True)
class AdamSettings(TrainingSettings):
    """How to train; defaults are the paper's for the Doppler experiment (Sec. 5.1) where it names one."""

    sparsity: int = 2  # kappa, the terminal number of experts at a point
    penalty: float = 0.5  # theta
    batch_size: int = 512  # B
    learning_rate: float = 0.01  # eta_0
    hyperparameter_rate: float = 0.2  # eta_H, relative to eta
    gate_rate: float = 1.0  # eta_G, relative to eta
    gate_scale: float = 10.0  # lambda_G
    covariance: type[InducingCovariance] = ZeroCovariance  # S while training
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
