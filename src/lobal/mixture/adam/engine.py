"""The Adam engine, and its options `lobal.Adam`."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, final

from lobal.core.checks import whole_number
from lobal.experts.svgp import COVARIANCES
from lobal.mixture.adam.fit import fit_by_adam
from lobal.mixture.adam.objective import Objective, elbo, squared_error
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.adam.tuning import tuned_adam
from lobal.mixture.checks import not_negative, one_of, positive, share_of
from lobal.mixture.engine import EngineOptions, Fit, HeldOut, Tune
from lobal.mixture.leave_one_out import left_out_prediction
from lobal.mixture.progress import Epoch
from lobal.mixture.settings import TrainingSettings

OBJECTIVES: dict[str, Objective] = {"elbo": elbo, "mse": squared_error}
LARGEST_VALIDATION_SET = 1024  # more labels hardly improve the decisions that validation makes


@final
@dataclass(kw_only=True, repr=False)
class Adam(EngineOptions):
    """The paper's engine: gate and experts trained jointly by Adam, stopped by validation (Sec. 4.4).

    Defaults are the paper's for the Doppler experiment where it names one. `tuning="full"` chooses rates, batch size,
    penalty and sparsity by validation (Algorithm 2).

    Args:
        sparsity (int): kappa, the largest number of experts with positive weight at a point; 2 by default.
        penalty (float or None): theta, the penalty of small bandwidths. By default 0.5 nats (1e-4 label variances with
            objective="mse") for up to 1024 labels, then falling as n^(-1/2).
        gate_scale (float): lambda_G, the prior variance of the gate's channels.
        learning_rate (float): eta_0; lower it if training diverges.
        hyperparameter_rate (float): eta_H, the rate of the hyperparameters relative to the learning rate.
        gate_rate (float): eta_G, the rate of the gate relative to the learning rate.
        gate_noise (float): s_0, the initial standard deviation of the noise on the gate's channels.
        batch_size (int or None): B; by default a quarter of the training set, between 16 and 512.
        patience (int): Epochs without improvement after which the learning rate is halved.
        max_epochs (int): Largest number of epochs.
        covariance (str): Covariance of the inducing values during training: "zero" (the paper's), "diagonal" or "full".
        validation_fraction (float): Share of the labels used for validation, at most 1024 labels, unless `fit` is given
            validation labels. After training the experts are conditioned on them too.
        gate_fraction (float): Share of the labels set aside for the gate of exact experts; by default none, and the
            gate learns from leave-one-out predictions.

    Example:
        >>> import lobal
        >>> model = lobal.MixtureRegressor(engine=lobal.Adam(sparsity=2, max_epochs=200))
        >>> model.set_params(engine__sparsity=3).engine
        Adam(max_epochs=200, sparsity=3)
    """

    settings: ClassVar[type[TrainingSettings]] = AdamSettings
    fit_mixture: ClassVar[Fit] = staticmethod(fit_by_adam)
    tune: ClassVar[Tune] = staticmethod(tuned_adam)
    held_out: ClassVar[HeldOut] = staticmethod(lambda fitted, points: left_out_prediction(fitted.mixture, points))
    exact_by_default: ClassVar[bool] = False
    chooses_kernel: ClassVar[bool] = False
    can_estimate_noise: ClassVar[bool] = False
    can_tune_once: ClassVar[bool] = True

    sparsity: int = 2
    penalty: float | None = None
    gate_scale: float = 10.0
    learning_rate: float = 0.01
    hyperparameter_rate: float = 0.2
    gate_rate: float = 1.0
    gate_noise: float = 0.1
    batch_size: int | None = None
    patience: int = 10
    max_epochs: int = 1000
    covariance: Literal["zero", "diagonal", "full"] = "zero"
    validation_fraction: float = 0.2
    gate_fraction: float = 0.0

    def training(self, n: int, objective: str) -> AdamSettings:
        options = {name: value for name, value in self.get_params().items() if not name.endswith("_fraction")}
        options["covariance"] = one_of("covariance", self.covariance, COVARIANCES)
        if self.penalty is None:
            options["penalty"] = default_penalty(n, objective)
        if self.batch_size is None:
            options["batch_size"] = min(512, max(16, n // 4))
        for name in ("sparsity", "batch_size", "patience", "max_epochs"):
            options[name] = whole_number(name, options[name], least=1)
        for name in ("learning_rate", "gate_scale"):
            options[name] = positive(name, options[name])
        for name in ("penalty", "hyperparameter_rate", "gate_rate", "gate_noise"):
            options[name] = not_negative(name, options[name])
        return AdamSettings(objective=one_of("objective", objective, OBJECTIVES), **options)

    def split(self, n: int) -> tuple[int, int]:
        n_validation = share_of(self.validation_fraction, n, "validation_fraction")
        n_gate = share_of(self.gate_fraction, n, "gate_fraction")
        return n_gate, min(max(n_validation, 2), LARGEST_VALIDATION_SET)

    def without_effect(self, *, exact: bool) -> list[str]:
        if exact:
            return [] if self.covariance == "zero" else ["covariance"]
        return ["gate_fraction"] if self.gate_fraction else []

    def status(self, epoch: Epoch) -> str:
        return (
            f"epoch {epoch.number + 1}, kappa {epoch.kappa}, learning rate x {epoch.rate:.2g}, "
            f"validation RMSE {epoch.validation_error:.4f}"
        )


def default_penalty(n: int, objective: str) -> float:
    """theta at n labels: 0.5 (ELBO, nats; the paper's) or 1e-4 (MSE, label variances) up to 1024, then as n^-1/2.

    A constant theta tolerates a bias that never goes away (docs/paper_map.md), so it has to fall with n.
    """
    return (1e-4 if objective == "mse" else 0.5) * min(1.0, math.sqrt(1024 / n))
