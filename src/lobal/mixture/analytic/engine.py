"""The analytic engine, and its options `lobal.Analytic`."""

from dataclasses import dataclass
from typing import ClassVar, final

from lobal.core.checks import whole_number
from lobal.mixture.analytic.fit import fit_analytic
from lobal.mixture.analytic.held_out import held_out_predictions
from lobal.mixture.analytic.settings import GATE_SCALE, NEIGHBOURS, AnalyticSettings
from lobal.mixture.analytic.tuning import tuned_analytic
from lobal.mixture.checks import not_negative, positive
from lobal.mixture.engine import EngineOptions, Fit, HeldOut, Tune
from lobal.mixture.progress import Epoch
from lobal.mixture.settings import TrainingSettings


@final
@dataclass(kw_only=True, repr=False)
class Analytic(EngineOptions):
    """The default engine: experts in closed form, an ordinal gate fitted to their leave-one-out predictions.

    It needs no validation labels and no learning rates, and takes a fraction of Adam's time.

    Args:
        gate_scale (float): Prior variance lambda_G of the gate, in squared steps on the ladder of bandwidths; 4 by
            default. Larger values let the local bandwidth vary more.
        penalty (float or None): theta, the paper's penalty of small bandwidths in nats, Eq. (eq:smallBWpenalty). By
            default small bandwidths are penalised by their leverage, which needs no tuning.
        neighbours (int or None): Local bandwidths are measured by how well labels are predicted from so many nearest
            others, 32 by default; None: by the mixture's own gate, as in the paper. Predictions do not depend on it.
            Where `bandwidths` are given, or with `tuning="off"`, it is the gate in any case.
        weighted (bool): Whether `sample_weight` counts in training too, and not only in `validation_error_`; off by
            default, which is more accurate.

    Example:
        >>> import lobal
        >>> lobal.MixtureRegressor(engine=lobal.Analytic(gate_scale=10.0)).engine
        Analytic(gate_scale=10.0)
    """

    settings: ClassVar[type[TrainingSettings]] = AnalyticSettings
    fit_mixture: ClassVar[Fit] = staticmethod(fit_analytic)
    tune: ClassVar[Tune] = staticmethod(tuned_analytic)
    held_out: ClassVar[HeldOut] = staticmethod(held_out_predictions)
    exact_by_default: ClassVar[bool] = True
    chooses_kernel: ClassVar[bool] = True
    can_estimate_noise: ClassVar[bool] = True
    can_tune_once: ClassVar[bool] = False

    gate_scale: float = GATE_SCALE
    penalty: float | None = None
    neighbours: int | None = NEIGHBOURS
    weighted: bool = False

    def training(self, n: int, objective: str) -> AnalyticSettings:
        del n  # no setting depends on it
        return AnalyticSettings(
            penalty=None if self.penalty is None else not_negative("penalty", self.penalty),
            gate_scale=positive("gate_scale", self.gate_scale),
            neighbours=None if self.neighbours is None else whole_number("neighbours", self.neighbours, least=2),
            weighted=bool(self.weighted),
            squared=objective == "mse",
        )

    def split(self, n: int) -> tuple[int, None]:
        del n  # every label is predicted from the others
        return 0, None

    def without_effect(self, *, exact: bool) -> list[str]:
        del exact  # all options act on a gate
        return []

    def status(self, epoch: Epoch) -> str:
        return f"round {epoch.number + 1}, leave-one-out RMSE {epoch.validation_error:.4f}"
