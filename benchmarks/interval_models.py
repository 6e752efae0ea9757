"""Models that say how sure they are: mean, standard deviation and 95% interval of a new label.

Every model is a function of training inputs, labels, their weights and a seed, which returns a function of test inputs.
Only the mixture heeds the weights.
"""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.sparse import csr_array
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lobal.mixture.estimator import MixtureRegressor

LEVEL = 0.95  # of the intervals
TAILS = (0.5 - LEVEL / 2.0, 0.5 + LEVEL / 2.0)
HALF_WIDTH = float(norm.ppf(TAILS[1]))  # of a normal interval, in standard deviations
LARGEST_OF_SCIKIT_LEARN = 1000
RESTARTS = 2  # of the optimisation of scikit-learn's processes
ITERATIONS = 200  # of GPyTorch's
SMALLEST_NOISES = (1e-6, 1e-5, 1e-4, 1e-3)  # of its processes, as shares of the labels' variance
TREES = 200
LEAF = 5  # training labels in a leaf at least, as in quantregForest: quantiles need several


class Prediction(NamedTuple):
    """What a model says of new labels."""

    mean: Float[ndarray, " m"]
    sd: Float[ndarray, " m"]  # of a new label, noise included
    lower: Float[ndarray, " m"]
    upper: Float[ndarray, " m"]
    validation_error: float | None = None  # what the model says of its own error


Predict: TypeAlias = Callable[[Float[ndarray, "m d"]], Prediction]
Model: TypeAlias = Callable[[Float[ndarray, "n d"], Float[ndarray, " n"], Float[ndarray, " n"], int], Predict]


def normal(mean: Float[ndarray, " m"], sd: Float[ndarray, " m"], **more: float) -> Prediction:
    """A normal distribution of the new label."""
    return Prediction(mean, sd, mean - HALF_WIDTH * sd, mean + HALF_WIDTH * sd, **more)


def mixture(
    X: Float[ndarray, "n d"],
    y: Float[ndarray, " n"],
    weight: Float[ndarray, " n"],
    seed: int,
    *,
    test_inputs: Float[ndarray, "k d"] | None = None,
) -> Predict:
    """lobal's default model, with its own interval."""
    model = MixtureRegressor(random_state=seed).fit(X, y, sample_weight=weight, test_inputs=test_inputs)
    predicted: Any = model.predict

    def predict(X_test: Float[ndarray, "m d"]) -> Prediction:
        found = normal(*predicted(X_test, return_std=True), validation_error=model.validation_error_)
        _, lower, upper = predicted(X_test, return_interval=LEVEL)
        return found._replace(lower=lower, upper=upper)

    return predict


def process(
    X: Float[ndarray, "n d"],
    y: Float[ndarray, " n"],
    _: Float[ndarray, " n"],
    seed: int,
    *,
    radial: Callable[..., Any],
) -> Predict:
    """scikit-learn's Gaussian process, one width per column; GPyTorch's where that would take an hour."""
    if len(y) > LARGEST_OF_SCIKIT_LEARN:
        return large_process(X, y, smooth=radial is RBF)
    widths = radial(np.ones(X.shape[1]), (1e-2, 1e3))
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * widths + WhiteKernel(0.1, (1e-8, 1e1))
    model = make_pipeline(
        StandardScaler(),
        GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=RESTARTS, random_state=seed),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # widths of columns that do not matter reach their bound
        model.fit(X, y)
    return lambda X_test: normal(*model.predict(X_test, return_std=True))


def large_process(X: Float[ndarray, "n d"], y: Float[ndarray, " n"], *, smooth: bool) -> Predict:
    """GPyTorch's exact process of greatest marginal likelihood, one width per column, without priors.

    Without noise, kernel matrices of many labels cannot be factorised. The noise is then at least ten times as large.
    """
    from linear_operator.utils.errors import NotPSDError  # heavy, and needed for the largest sets only

    for smallest in SMALLEST_NOISES:
        try:
            predict = _large_process(X, y, smooth=smooth, smallest_noise=smallest)
            predict(X[:1])
        except NotPSDError:
            continue
        return predict
    raise ValueError(f"{len(y)} labels: no kernel matrix could be factorised with noise up to {SMALLEST_NOISES[-1]:g}")


def _large_process(
    X: Float[ndarray, "n d"], y: Float[ndarray, " n"], *, smooth: bool, smallest_noise: float
) -> Predict:
    import gpytorch
    import torch
    from botorch.models import SingleTaskGP
    from botorch.optim.fit import fit_gpytorch_mll_scipy

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    scaler, centre, scale = StandardScaler().fit(X), y.mean(), y.std()

    def tensor(values: Float[ndarray, "..."]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64, device=device)

    d = X.shape[1]
    radial = (
        gpytorch.kernels.RBFKernel(ard_num_dims=d) if smooth else gpytorch.kernels.MaternKernel(2.5, ard_num_dims=d)
    )
    noise = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.GreaterThan(smallest_noise))
    model = SingleTaskGP(
        tensor(scaler.transform(X)),
        tensor((y - centre) / scale)[:, None],
        likelihood=noise,
        covar_module=gpytorch.kernels.ScaleKernel(radial),
        outcome_transform=None,
    ).to(device)
    # Factorisations, as scikit-learn computes, instead of conjugate gradients.
    exact = gpytorch.settings.max_cholesky_size(len(y) + 1)
    with exact:
        likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll_scipy(likelihood.train(), options={"maxiter": ITERATIONS})
        model.eval()

    def predict(X_test: Float[ndarray, "m d"]) -> Prediction:
        with exact, torch.no_grad():
            posterior = model.posterior(tensor(scaler.transform(X_test)), observation_noise=True)
            mean, variance = (part[:, 0].cpu().numpy() for part in (posterior.mean, posterior.variance))
        return normal(centre + scale * mean, scale * np.sqrt(variance))

    return predict


def quantile_forest(X: Float[ndarray, "n d"], y: Float[ndarray, " n"], _: Float[ndarray, " n"], seed: int) -> Predict:
    """Quantile regression forest (Meinshausen, 2006): training labels are weighted by how often they share a leaf."""
    forest = RandomForestRegressor(TREES, min_samples_leaf=LEAF, random_state=seed).fit(X, y)

    def predict(X_test: Float[ndarray, "m d"]) -> Prediction:
        weights = leaf_weights(forest.apply(X), forest.apply(X_test))
        mean = weights @ y
        sd = np.sqrt(np.maximum(weights @ np.square(y) - np.square(mean), 0.0))
        lower, upper = (weighted_quantile(y, weights, tail) for tail in TAILS)
        return Prediction(mean, sd, lower, upper)

    return predict


def leaf_weights(train: Int[ndarray, "n trees"], test: Int[ndarray, "m trees"]) -> Float[ndarray, "m n"]:
    """Weights of training labels at test inputs, from leaves that both are in: means over trees, rows sum to one."""
    trees = train.shape[1]
    sizes = np.maximum(train.max(axis=0), test.max(axis=0)) + 1
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])  # every leaf of every tree has a column

    def membership(leaves: Int[ndarray, "k trees"]) -> csr_array:
        rows = np.repeat(np.arange(len(leaves)), trees)
        return csr_array((np.ones(leaves.size), (rows, (leaves + first).ravel())), (len(leaves), int(sizes.sum())))

    members = membership(train)
    labels_of_leaf = np.maximum(members.sum(axis=0), 1.0)
    return np.asarray((membership(test) @ (members / labels_of_leaf).T).toarray() / trees)


def weighted_quantile(y: Float[ndarray, " n"], weights: Float[ndarray, "m n"], share: float) -> Float[ndarray, " m"]:
    """The smallest label at which the weights of labels up to it reach the share, row by row."""
    order = np.argsort(y, kind="stable")
    reached = np.cumsum(weights[:, order], axis=1) >= share * (1.0 - 1e-12)
    return np.asarray(y[order][reached.argmax(axis=1)])


def boosting(X: Float[ndarray, "n d"], y: Float[ndarray, " n"], _: Float[ndarray, " n"], seed: int) -> Predict:
    """Gradient boosting: one model of the mean, one of each end of the interval."""
    losses: list[dict[str, Any]] = [{}, *({"loss": "quantile", "quantile": tail} for tail in TAILS)]
    models = [HistGradientBoostingRegressor(**loss, random_state=seed).fit(X, y) for loss in losses]

    def predict(X_test: Float[ndarray, "m d"]) -> Prediction:
        mean, *ends = (model.predict(X_test) for model in models)
        lower, upper = np.minimum(*ends), np.maximum(*ends)  # quantiles may cross
        return Prediction(mean, (upper - lower) / (2.0 * HALF_WIDTH), lower, upper)

    return predict


PROCESSES = ("gp_matern52", "gp_rbf")
MODELS: Mapping[str, Model] = {
    "mixture": mixture,
    "gp_matern52": partial(process, radial=partial(Matern, nu=2.5)),
    "gp_rbf": partial(process, radial=RBF),
    "quantile_forest": quantile_forest,
    "boosting": boosting,
}
