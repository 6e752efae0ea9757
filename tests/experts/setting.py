"""One small regression problem for all expert tests, and the same models in GPyTorch."""

from typing import NamedTuple

import gpytorch
import torch
from torch import Tensor

from lobal.core.kernels import WhitenedFeatures, gaussian
from lobal.experts.fitc import conditioned, fitc_variance, moments
from lobal.experts.interface import Hyperparameters
from lobal.experts.svgp import FullCovariance, InducingCovariance, SparseExperts, nystroem_diagonal

CLOSE = {"rtol": 1e-6, "atol": 1e-7}  # a jitter of 1e-10 on either side is allowed for


class Setting(NamedTuple):
    """Two input columns, three experts, inducing points that no kernel matrix minds."""

    X: Tensor
    y: Tensor
    X_new: Tensor
    Z: Tensor
    noises: Tensor  # one variance per label
    hyperparameters: Hyperparameters  # with one variance for all labels
    bandwidths: Tensor
    shared_bandwidth: Tensor

    @classmethod
    def draw(cls, generator: torch.Generator, n: int = 30) -> "Setting":
        def uniform(*shape: int) -> Tensor:
            return torch.rand(*shape, dtype=torch.float64, generator=generator)

        X = 3.0 * uniform(n, 2)
        like = X.new_tensor
        return cls(
            X=X,
            y=1.0 + torch.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * (uniform(n) - 0.5),
            X_new=4.0 * uniform(11, 2) - 0.5,
            Z=torch.cartesian_prod(like([0.4, 1.5, 2.6]), like([0.4, 1.5, 2.6])),
            noises=0.01 + 0.2 * uniform(n),
            hyperparameters=Hyperparameters(like(0.3), like(1.7), like(0.05)),
            bandwidths=like([0.3, 0.7, 1.2]),
            shared_bandwidth=like([0.8, 1.3]),
        )

    @property
    def heteroscedastic(self) -> Hyperparameters:
        return self.hyperparameters._replace(noise=self.noises)

    @property
    def kernels(self) -> dict:
        return {"bandwidths": self.bandwidths, "shared_bandwidth": self.shared_bandwidth, "kernel": gaussian}

    @property
    def features(self) -> WhitenedFeatures:
        return WhitenedFeatures.at(self.Z, **self.kernels)

    def oracle_kernel(self, expert: int) -> gpytorch.kernels.Kernel:
        """GPyTorch's kernel of one expert, lambda included."""
        kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2)).double()
        kernel.base_kernel.lengthscale = self.bandwidths[expert] * self.shared_bandwidth
        kernel.outputscale = self.hyperparameters.scale
        return kernel

    def oracle_mean(self) -> gpytorch.means.Mean:
        mean = gpytorch.means.ConstantMean().double()
        mean.constant = self.hyperparameters.mean
        return mean

    def oracle_likelihood(self) -> gpytorch.likelihoods.Likelihood:
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        likelihood.noise = self.hyperparameters.noise
        return likelihood


def fitc_experts(
    features: WhitenedFeatures,
    X: Tensor,
    y: Tensor,
    hyperparameters: Hyperparameters,
    *,
    weights: Tensor | None = None,
    covariance: type[InducingCovariance] = FullCovariance,
) -> SparseExperts:
    """Sparse experts whose inducing values are the exact posterior; `weights` multiply each log-likelihood."""
    phi = features(X)
    precision = (1.0 if weights is None else weights) / fitc_variance(nystroem_diagonal(phi), hyperparameters)
    factor, mean = conditioned([moments(phi, y, hyperparameters, precision=precision)])
    return SparseExperts(
        features=features,
        hyperparameters=hyperparameters,
        whitened_mean=mean,
        covariance=covariance.best(factor),
    )


class OracleGP(gpytorch.models.ExactGP):
    """GPyTorch's Gaussian process on the data of a setting."""

    def __init__(
        self, setting: Setting, kernel: gpytorch.kernels.Kernel, likelihood: gpytorch.likelihoods.Likelihood
    ) -> None:
        super().__init__(setting.X, setting.y, likelihood)
        self.mean_module = setting.oracle_mean()
        self.covar_module = kernel

    def forward(self, X: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))

    @torch.no_grad()
    def evidence(self) -> Tensor:
        """The log marginal likelihood or, for a sparse kernel, its bound."""
        self.train()
        mll = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self)
        return mll(self(*self.train_inputs), self.train_targets) * len(self.train_targets)

    @torch.no_grad()
    def predict(self, X: Tensor) -> tuple[Tensor, Tensor]:
        self.eval()
        posterior = self(X)
        return posterior.mean, posterior.variance
