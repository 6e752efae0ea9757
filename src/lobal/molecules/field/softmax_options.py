"""Options of the paper's gate of force fields."""

import math
from dataclasses import dataclass
from typing import final

from lobal.core.checks import whole_number
from lobal.core.schema import positive, real, table, whole
from lobal.mixture.adam.settings import AdamSettings

# Entries of files.
FIELDS = table(
    {},
    **dict.fromkeys(("sparsity", "batch_size", "patience", "max_epochs"), whole(1)),
    **dict.fromkeys(("width", "scale", "learning_rate"), positive()),
    **dict.fromkeys(("penalty", "hyperparameter_rate", "gate_rate", "gate_noise"), real(0.0)),
)


@final
@dataclass(frozen=True, kw_only=True)
class SoftmaxGateOptions:
    """The paper's gate: a softmax of the kappa largest of L sparse processes, trained by Adam.

    Defaults are the paper's for malonaldehyde (Sec. 5.2), and those of `lobal.Adam` where it names none.

    Args:
        sparsity: kappa, the largest number of experts with positive weight; all, if the ladder has no more. With fewer
            than all, the energy has steps where one expert takes the place of another.
        penalty: theta, of small bandwidths, in units of the loss of the best expert.
        width: sigma_G, of the gate's kernel, in 1 / Angstrom.
        scale: lambda_G, the prior variance of the gate's channels.
        batch_size: B, in configurations.
        learning_rate: eta_0; lower it if training diverges.
        hyperparameter_rate: eta_H, the rate of mu and log lambda relative to the learning rate.
        gate_rate: eta_G, the rate of the gate relative to the learning rate.
        gate_noise: s_0, the initial standard deviation of the noise on the gate's channels.
        patience: epochs without improvement after which the learning rate is halved.
        max_epochs: largest number of epochs.
    """

    sparsity: int = 8
    penalty: float = 0.01
    width: float = 0.1
    scale: float = 1e4
    batch_size: int = 1024
    learning_rate: float = 0.005
    hyperparameter_rate: float = 0.05
    gate_rate: float = 0.1
    gate_noise: float = 0.01
    patience: int = 10
    max_epochs: int = 1000

    def __post_init__(self) -> None:
        for name in ("sparsity", "batch_size", "patience", "max_epochs"):
            whole_number(name, getattr(self, name), least=1)
        for name in ("width", "scale", "learning_rate"):
            if not 0.0 < (value := getattr(self, name)) < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value}")
        for name in ("penalty", "hyperparameter_rate", "gate_rate", "gate_noise"):
            if not 0.0 <= (value := getattr(self, name)) < math.inf:
                raise ValueError(f"{name} must be at least zero and finite, got {value}")

    def training(self) -> AdamSettings:
        """The same, as the schedules of `mixture.adam` take them."""
        return AdamSettings(
            sparsity=self.sparsity,
            penalty=self.penalty,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            hyperparameter_rate=self.hyperparameter_rate,
            gate_rate=self.gate_rate,
            gate_scale=self.scale,
            gate_noise=self.gate_noise,
            patience=self.patience,
            max_epochs=self.max_epochs,
        )
