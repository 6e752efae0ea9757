"""How the analytic engine trains a mixture."""

from dataclasses import dataclass
from typing import final

from lobal.mixture.settings import TrainingSettings

# Of 0, 2, 4 and 8: on the Doppler function 4 and 8 were best, on five measured data sets 0 and 2, by little.
PRICE = 4.0
GATE_SCALE = 4.0  # lambda_G in squared steps of the ladder
ROUNDS = 4
# Labels that a label is predicted from to measure local bandwidths. With 16 to 48, the complexity of known functions in
# one, three and six columns was found about equally well (trials of three seeds, not kept).
NEIGHBOURS = 32


@final
@dataclass(frozen=True, kw_only=True)
class AnalyticSettings(TrainingSettings):
    """How to fit the gate."""

    penalty: float | None = None  # theta of Eq. (eq:smallBWpenalty), instead of the price of leverage
    price: float = PRICE
    gate_scale: float = GATE_SCALE
    weighted: bool = False  # importance weights count in training, which is less accurate for local experts
    squared: bool = False  # compare experts by squared errors, not by likelihoods: for (almost) noise-free labels
    compared: bool = True  # choose between these by held-out labels; for exact experts also whether to price leverage
    rounds: int = ROUNDS
    neighbours: int | None = NEIGHBOURS  # by which local bandwidths are measured; None: by the mixture's gate
