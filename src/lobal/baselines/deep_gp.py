"""A deep Gaussian process, and active learning by it (active learning Cohn), as in Sauer, Gramacy and Higdon (2023).

    model = DeepGaussianProcess(random_state=0).fit(X, y)
    mean, std = model.predict(X_new, return_std=True)
    rows = alc(model, candidates, 8)

`deep_gp_sampling` has the model and its Markov chains.
"""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lobal.baselines.deep_gp_sampling import Chains, State, joined
from lobal.core.arrays import as_matrix, resolve_device
from lobal.core.checks import whole_number
from lobal.core.real_numbers import as_numbers
from lobal.core.units import Units

FEWEST_LABELS = 10
BEYOND = 1.0  # how far from the labels inputs of hidden layers are told apart, in units of the labels' range
ENTRIES = 2**24  # numbers of one array at a time


class DeepGaussianProcess(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Regression by Gaussian processes of Gaussian processes, for one input column.

    Hidden layers warp the input, so that the function may be fast here and slow there; the posterior of all layers is
    sampled.

    Args:
        layers: Number of layers, one to three; one is a Gaussian process.
        chains: Number of Markov chains, each from a start of its own.
        ascent: Steps of gradient ascent to the start of the chains; more if errors differ from chain to chain.
        burn_in: Sweeps of every chain that are left out.
        sweeps: Sweeps after these, which take O(n M + M^3) time with M = 200.
        thinning: Every so-manieth of them is kept.
        bounds: Smallest and largest input, by default those of the labels; set them if more labels come.
        warm_start: Whether a second `fit` goes on with the chains of the first instead of with an ascent; layers,
            chains and device are those of the first.
        device: "cpu", "cuda" or "auto".
        random_state: Seed.

    Attributes:
        noise_: Estimated noise variance of the labels.

    Example:
        >>> import numpy as np
        >>> from lobal.baselines.deep_gp import DeepGaussianProcess
        >>> X = np.linspace(0.0, 1.0, 40)[:, None]
        >>> model = DeepGaussianProcess(chains=1, ascent=20, burn_in=2, sweeps=4, thinning=2, random_state=0)
        >>> mean, std = model.fit(X, np.sin(3.0 / (X[:, 0] + 0.2))).predict(X, return_std=True)
        >>> mean.shape, std.shape
        ((40,), (40,))
    """

    def __init__(
        self,
        *,
        layers: int = 3,
        chains: int = 4,
        ascent: int = 200,
        burn_in: int = 50,
        sweeps: int = 150,
        thinning: int = 10,
        bounds: tuple[float, float] | None = None,
        warm_start: bool = False,
        device: str | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.layers = layers
        self.chains = chains
        self.ascent = ascent
        self.burn_in = burn_in
        self.sweeps = sweeps
        self.thinning = thinning
        self.bounds = bounds
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> "DeepGaussianProcess":
        """Sample the posterior.

        Args:
            X: Inputs, (n, 1).
            y: Labels, (n,).

        Returns:
            The fitted model.

        Raises:
            ValueError: There are several columns or fewer than 10 labels, arrays have wrong shapes or are not finite,
                or an option is out of range.
        """
        self._check_options()
        inputs, labels = _checked(X), as_numbers(y, name="y")
        if labels.shape != inputs.shape or len(labels) < FEWEST_LABELS or not np.isfinite(labels).all():
            raise ValueError(
                f"y must be finite numbers, one for each row of X and at least {FEWEST_LABELS}, got shape "
                f"{labels.shape} for {len(inputs)} rows"
            )
        self.bounds_ = self._range(inputs)
        units = Units.of(labels[:, None])(labels[:, None])[:, 0]
        spread = units.std()
        self.label_mean_ = float(labels.mean())
        self.label_scale_ = float(labels.std()) if spread > 0.0 else 1.0
        going_on = self.warm_start and hasattr(self, "state_")
        if going_on:
            self._check_state()
        else:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            self.generator_ = torch.Generator(resolve_device(self.device)).manual_seed(seed)
        with torch.no_grad():
            standardised = torch.as_tensor((labels - self.label_mean_) / self.label_scale_)
            chains = Chains(self._scaled(inputs), standardised.to(resolve_device(self.device)), self.layers)
            state = self.state_ if going_on else chains.start(self.chains, self.generator_)
            self._sample(chains, state if going_on else chains.ascend(state, self.ascent))
        return self

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> Float[ndarray, " n"] | tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
        """The posterior mean and, on request, the standard deviation of new labels, over layers and hyperparameters.

        Args:
            X: Inputs, (n, 1).
            return_std: Whether to return standard deviations too.

        Returns:
            The mean, (n,), or a pair.
        """
        check_is_fitted(self)
        x = self._scaled(_checked(X))
        samples = len(self.samples_.scales)
        parts = [self._moments(part, return_std) for part in x.split(max(1, ENTRIES // (samples * self._size)))]
        mean, variance = (torch.cat(each).cpu().numpy() for each in zip(*parts, strict=True))
        mean = self.label_mean_ + self.label_scale_ * mean
        return (mean, self.label_scale_ * np.sqrt(variance)) if return_std else mean

    @property
    def _size(self) -> int:
        return self.chains_.output.number

    def _check_options(self) -> None:
        least = {"layers": 1, "chains": 1, "ascent": 0, "burn_in": 0, "sweeps": 1, "thinning": 1}
        for name, bound in least.items():
            whole_number(name, getattr(self, name), least=bound)
        if self.layers > 3:
            raise ValueError(f"layers must be 1, 2 or 3, got {self.layers}")
        if self.thinning > self.sweeps:
            raise ValueError(
                f"thinning must be at most sweeps={self.sweeps}, else nothing is kept, got {self.thinning}"
            )

    def _check_state(self) -> None:
        """Refuse to go on with the chains of another model."""
        found = (1 + len(self.state_.weights), len(self.state_.scales))
        if found != (self.layers, self.chains):
            raise ValueError(
                f"warm_start goes on with layers={found[0]} and chains={found[1]}, got layers={self.layers} and "
                f"chains={self.chains}; set warm_start=False to begin anew"
            )

    def _range(self, inputs: Float[ndarray, " n"]) -> tuple[float, float]:
        lower, upper = (inputs.min(), inputs.max()) if self.bounds is None else self.bounds
        if not (math.isfinite(upper - lower) and lower < upper):
            raise ValueError(f"inputs must have different values, and bounds ascend, got bounds {(lower, upper)}")
        if inputs.min() < lower or inputs.max() > upper:
            raise ValueError(f"X must be within bounds={self.bounds}, got {inputs.min()} to {inputs.max()}")
        return float(lower), float(upper)

    def _scaled(self, inputs: Float[ndarray, " n"]) -> Float[Tensor, " n"]:
        lower, upper = self.bounds_
        shares = np.clip((inputs - lower) / (upper - lower), -BEYOND, 1.0 + BEYOND)
        return torch.as_tensor(shares - 0.5, dtype=torch.float64).to(resolve_device(self.device))

    def _sample(self, chains: Chains, state: State) -> None:
        kept = []
        for sweep in range(self.burn_in + self.sweeps):
            state = chains.sweep(state, self.generator_)
            if sweep >= self.burn_in and (sweep - self.burn_in + 1) % self.thinning == 0:
                kept.append(state)
        self.chains_, self.state_, self.samples_ = chains, state, joined(kept)
        self.posterior_ = chains.posterior(self.samples_)
        noise = self.posterior_.noise * self.posterior_.scale
        self.noise_ = self.label_scale_**2 * float(noise.mean())

    def _places(self, x: Float[Tensor, " m"]) -> Float[Tensor, "S m"]:
        output = self.chains_.output
        # Without hidden layers to where all bandwidths leave the prior variance what it is, see ROOM.
        reach = output.reach if self.chains_.hidden else output.half_width - output.bounds[1]
        return self.chains_.warp(self.samples_, x).places.clamp(-reach, reach)

    @torch.no_grad()
    def _moments(self, x: Float[Tensor, " m"], with_variance: bool) -> tuple[Tensor, Tensor]:
        places, posterior = self._places(x), self.posterior_
        mean = posterior.mean(places)
        if not with_variance:
            return mean.mean(0), torch.zeros_like(mean[0])
        within = (posterior.roots(places).square().sum(1) + posterior.noise[:, None]) * posterior.scale[:, None]
        return mean.mean(0), within.mean(0) + mean.var(0, correction=0)


@torch.no_grad()
def alc(
    model: DeepGaussianProcess,
    candidates: ArrayLike,
    b: int,
    *,
    references: ArrayLike | None = None,
) -> Int[ndarray, " b"]:
    """Active learning Cohn: candidates that lower the variance at the references most, each given those before it.

    The variance is that of the output layer, averaged over the references and over the samples of the hidden layers,
    which a new label leaves as they are.

    Args:
        model: A fitted model.
        candidates: Inputs to choose from, (N, 1); O(N^2) memory for each of the model's samples.
        b: How many to choose; all different.
        references: Inputs that follow the test density, (m, 1); by default the candidates.

    Returns:
        Rows of the candidates, (b,).

    Raises:
        ValueError: b is not between one and the number of candidates.
    """
    check_is_fitted(model)
    inputs = _checked(candidates, name="candidates")
    others = np.empty(0) if references is None else _checked(references, name="references")
    N = len(inputs)
    if not 1 <= b <= N:
        raise ValueError(f"b must be between 1 and {N}, the number of candidates, got {b}")
    of_reference = slice(0, N) if references is None else slice(N, None)
    V = model.posterior_.roots(model._places(model._scaled(np.concatenate([inputs, others]))))
    covariance = V.mT @ V[:, :, :N]  # of everything with the candidates, in units of tau^2
    noise, scale = model.posterior_.noise[:, None], model.posterior_.scale[:, None]
    rows: list[int] = []
    for _ in range(b):
        label = covariance[:, :N].diagonal(dim1=1, dim2=2) + noise
        gain = (scale * covariance[:, of_reference].square().mean(1) / label).mean(0)
        gain[rows] = -math.inf
        rows.append(int(gain.argmax()))
        column = covariance[:, :, rows[-1]]
        covariance = covariance - column[:, :, None] * (column[:, :N] / label[:, rows[-1], None])[:, None]
    return np.array(rows, dtype=np.int64)


def _checked(X: Any, *, name: str = "X") -> Float[ndarray, " n"]:  # noqa: ANN401 - any array-like
    matrix = as_matrix(X, name=name)
    if matrix.shape[1] != 1:
        raise ValueError(f"a deep Gaussian process has one input column here, got {name} of shape {matrix.shape}")
    return np.asarray(matrix[:, 0], dtype=np.float64)
