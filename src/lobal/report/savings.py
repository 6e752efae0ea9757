"""Labels saved by active learning: measured against random labels, or expected before any are spent."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.stats import t as student

from lobal.active.expected_savings import ExpectedSavings
from lobal.core.superior_density import learning_rate

CHANCE = 0.05  # probability of a verdict if there is no difference
LITTLE_TO_GAIN = 0.1  # expected savings below which local complexity hardly pays, where no standard error is known


class Estimate(NamedTuple):
    """A number and its standard error; a single repetition has none."""

    value: float
    standard_error: float | None


@final
@dataclass(frozen=True, kw_only=True)
class Savings:
    """Relative required sample sizes rho: below one, active learning saves labels."""

    rho: Float[ndarray, " sizes"]
    standard_error: Float[ndarray, " sizes"] | None
    overall: Estimate  # the geometric mean over the sizes
    repetitions: int  # of the arm that has fewer

    def verdict(self) -> str:
        """The conclusion from all sizes together, in one sentence."""
        return verdict(*self.overall, repetitions=self.repetitions)

    def rho_at(self, size: int) -> str:
        """rho with its standard error at one of the sizes, counted from 0, for a table."""
        error = "" if self.standard_error is None else f" ± {self.standard_error[size]:.2f}"
        return f"{self.rho[size]:.2f}{error}"


def relative_sample_sizes(
    rmse_active: Any,  # noqa: ANN401 - array-likes of any kind, checked here
    rmse_random: Any,  # noqa: ANN401 - as above
    *,
    smoothness: float,
    dimension: float,
) -> Savings:
    """Relative required sample sizes of an active against a random design, Eq. (eq:relSampleSizeGPRApprox).

    Each (seeds, sizes) matrix is pooled over its seeds, and rho = (RMSE_active / RMSE_random)^(1 / tau) at every size.
    Standard errors are jackknifed on the logarithm: over pairs of seeds if both arms have equally many, which then have
    to be in the same order, and over each arm separately otherwise.
    """
    active, random = _errors(rmse_active, "rmse_active"), _errors(rmse_random, "rmse_random")
    if active.shape[1] != random.shape[1]:
        raise ValueError(
            f"both arms need errors (seeds, sizes) at the same sizes, got shapes {active.shape} and {random.shape}"
        )
    exponent = 1.0 / learning_rate(smoothness=smoothness, dimension=dimension)
    logarithm = exponent * (_log_pooled(active) - _log_pooled(random))
    each, mean = _log_deviations(active, random, exponent)
    rho, overall = np.exp(logarithm), math.exp(logarithm.mean())
    return Savings(
        rho=rho,
        standard_error=None if each is None else rho * each,
        overall=Estimate(overall, None if mean is None else overall * mean),
        repetitions=min(len(active), len(random)),
    )


def pooled_errors(rmse: Any) -> tuple[Float[ndarray, " sizes"], Float[ndarray, " sizes"] | None]:  # noqa: ANN401 - as above
    """Root of the mean over seeds of the squared errors (seeds, sizes), with its jackknifed standard error."""
    errors = _errors(rmse, "rmse")
    pooled = np.exp(_log_pooled(errors))
    if len(errors) < 2:
        return pooled, None
    return pooled, pooled * np.sqrt(_jackknife_variance(_without_each(errors)))


def verdict(rho: float, standard_error: float | None, *, repetitions: int) -> str:
    """The conclusion from a measured relative sample size.

    A difference from one is significant at the 5% level of Student's t distribution: from 2.1 standard errors on with
    16 repetitions, 2.4 with 8, 12.7 with 2.
    """
    if standard_error is None:
        return f"rho = {rho:.2f}, from a single repetition: repeat it with other seeds to tell a gain from chance"
    spread = _percent(standard_error, standard_error)
    by_chance = standard_error * float(student.ppf(1.0 - 0.5 * CHANCE, repetitions - 1))
    if rho + by_chance < 1.0:
        return f"active learning saved {_percent(1.0 - rho, standard_error)} ± {spread} of the labels"
    if rho - by_chance > 1.0:
        return f"active learning cost {_percent(rho - 1.0, standard_error)} ± {spread} more labels"
    if abs(1.0 - rho) > 2.0 * standard_error:  # significant if there were many repetitions
        few = f"rho = {rho:.2f} ± {standard_error:.2f}, from {repetitions} repetitions"
        return f"{few}: repeat it with other seeds to tell it from chance"
    clear = "no clear gain" if rho < 1.0 else "no gain"
    return f"{clear} here (rho = {rho:.2f} ± {standard_error:.2f})"


def expectation(savings: ExpectedSavings | None) -> str:
    """The expected share of labels saved as a sentence; nothing is expected within one standard error of nothing."""
    if savings is None:
        return "not known yet: the labels are too few, or too noisy, to tell savings from chance"
    share, error = savings.share, savings.standard_error
    if error is None:
        some = f"up to {100.0 * share:.0f}% of the labels saved against random ones"
        return f"{some if share >= LITTLE_TO_GAIN else 'little or nothing to gain'} (how sure this is, is not known)"
    if share < error:
        return "little or nothing to gain from local complexity: points spread evenly do as well"
    return f"{_percent(share, error)} ± {_percent(error, error)} of the labels saved by following the local complexity"


def _errors(values: Any, name: str) -> Float[ndarray, "seeds sizes"]:  # noqa: ANN401 - as above
    """`values` as a matrix of positive numbers."""
    try:
        errors = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a matrix (seeds, sizes) of numbers, got {values!r}") from error
    if errors.ndim != 2 or errors.size == 0:
        raise ValueError(f"{name} must have shape (seeds, sizes) with at least one of each, got {errors.shape}")
    wrong = ~(np.isfinite(errors) & (errors > 0.0))
    if wrong.any():
        seed, size = np.argwhere(wrong)[0]
        raise ValueError(
            f"{name} must be finite and above zero, got {errors[seed, size]} at seed {seed} and size {size}"
        )
    return errors


def _log_pooled(errors: Float[ndarray, "seeds sizes"]) -> Float[ndarray, " sizes"]:
    return np.asarray(0.5 * np.log(np.square(errors).mean(axis=0)))


def _without_each(errors: Float[ndarray, "seeds sizes"]) -> Float[ndarray, "seeds sizes"]:
    """`_log_pooled` of all seeds but one, for each."""
    return np.stack([_log_pooled(np.delete(errors, seed, axis=0)) for seed in range(len(errors))])


def _jackknife_variance(leave_one_out: Float[ndarray, "seeds ..."]) -> Float[ndarray, "..."]:
    return np.asarray((len(leave_one_out) - 1) * leave_one_out.var(axis=0))


def _log_deviations(
    active: Float[ndarray, "active sizes"], random: Float[ndarray, "random sizes"], exponent: float
) -> tuple[Float[ndarray, " sizes"] | None, float | None]:
    """Standard errors of log rho at every size and of its mean over them."""
    if min(len(active), len(random)) < 2:
        return None, None
    arms = [_without_each(active), _without_each(random)]
    if len(active) == len(random):  # pairs of seeds are left out
        arms = [arms[0] - arms[1]]
    each = sum(_jackknife_variance(arm) for arm in arms)
    mean = sum(float(_jackknife_variance(arm.mean(axis=1))) for arm in arms)
    return exponent * np.sqrt(each), exponent * math.sqrt(mean)


def _percent(share: float, standard_error: float) -> str:
    """A share in percent, with as many digits as its standard error allows."""
    digits = 0 if standard_error >= 0.01 else 1
    return f"{100.0 * share:.{digits}f}%"
