"""The mixture of Sec. 4 out of stock GPyTorch modules, and one stock sparse Gaussian process.

All experts are one batched Gaussian process, all channels of the gate another: no loop over them in Python. Inducing
points and bandwidths are fixed, the inducing values are whitened and have no covariance (S = 0), as the paper has it.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, cast, final

import gpytorch
import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.variational import CholeskyVariationalDistribution, DeltaVariationalDistribution
from jaxtyping import Float
from linear_operator.operators import DiagLinearOperator
from torch import Tensor
from torch.nn import Parameter

from lobal.core.arrays import Bandwidths, Inputs, Scalar
from lobal.experts.interface import Hyperparameters
from lobal.mixture.adam.objective import expert_shares, gated_negative_elbo, small_bandwidth_penalty
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.gate import gated_mean, top_kappa_softmax


class Start(NamedTuple):
    """What training starts from: hyperparameters of the global expert, and where the basis functions go."""

    shared: Hyperparameters
    inducing: Float[Tensor, "m d"]


@final
class SparseGP(gpytorch.models.ApproximateGP):  # type: ignore[misc]  # GPyTorch ships no types
    """A sparse variational Gaussian process, as GPyTorch's documentation writes it; a batch of them where parts are."""

    def __init__(self, inducing: Float[Tensor, "m d"], mean: Any, kernel: Any, distribution: Any) -> None:  # noqa: ANN401
        strategy = gpytorch.variational.VariationalStrategy(
            self, inducing, distribution, learn_inducing_locations=False
        )
        super().__init__(strategy)
        self.mean_module, self.covar_module = mean, kernel

    def forward(self, X: Inputs) -> MultivariateNormal:
        """The prior at X."""
        return MultivariateNormal(self.mean_module(X), self.covar_module(X))

    def values(self) -> list[Parameter]:
        """Leaf tensors of the inducing values' distribution."""
        return list(self.variational_parameters())

    def divergence(self) -> Float[Tensor, "*batch"]:
        """KL of the inducing values, for each Gaussian process of the batch."""
        return cast(Tensor, self.variational_strategy.kl_divergence())


@final
class GPyTorchExperts(torch.nn.Module):
    """L experts that share mean, scale and noise and differ in bandwidth, as fast as the stock modules allow.

    Mean and scale act outside the kernel, so that nothing in the kernel is learned. Then no gradient goes through K_zz,
    and the evaluation mode, which keeps the Cholesky factor, may train: the only other thing it keeps is the delta
    distribution, which holds the very leaf tensor that Adam changes in place.
    """

    def __init__(self, start: Start, bandwidths: Bandwidths) -> None:
        super().__init__()
        distribution = DeltaVariationalDistribution(
            len(start.inducing), torch.Size([len(bandwidths)]), mean_init_std=0.0
        )
        self.gp = SparseGP(start.inducing, gpytorch.means.ZeroMean(), _fixed_kernel(bandwidths), distribution)
        self.constant = Parameter(start.shared.mean.clone())
        self.log_scale = Parameter(start.shared.scale.log())

    def posterior(self, X: Inputs) -> MultivariateNormal:
        """Mean and variance of every expert at every input, (L, n)."""
        unit = self.gp(X)
        scale = self.log_scale.exp()
        variance = DiagLinearOperator(scale * unit.variance)
        return MultivariateNormal(self.constant + scale.sqrt() * unit.mean, variance)

    def mean(self, X: Inputs) -> Float[Tensor, "L n"]:
        """Mean alone, which costs less."""
        return self.constant + self.log_scale.exp().sqrt() * cast(Tensor, self.gp(X).mean)


class GPyTorchModel(torch.nn.Module, ABC):
    """What the training loop needs."""

    is_final: bool  # whether the validation errors seen so far are those of the model that training ends with
    has_training_mode: bool  # whether GPyTorch has to compute everything anew at every step

    @abstractmethod
    def groups(self, settings: AdamSettings) -> list[dict[str, Any]]:
        """Leaf tensors with their learning rates."""

    @abstractmethod
    def loss(self, X: Inputs, y: Float[Tensor, " n"], n: int) -> Scalar:
        """The objective on a batch of n points in all."""

    @abstractmethod
    def mean(self, X: Inputs) -> Float[Tensor, " n"]:
        """The prediction."""

    @abstractmethod
    def end_epoch(self, number: int) -> None:
        """Take note that an epoch is over."""


@final
class MixtureModel(GPyTorchModel):
    """Experts, gate and the objective of Sec. 4.4.1, with lobal's schedules of kappa and gate noise."""

    has_training_mode = False

    def __init__(
        self,
        experts: GPyTorchExperts,
        gate: SparseGP,
        noise: Scalar,
        settings: AdamSettings,
        generator: torch.Generator,  # on the device of the model
        *,
        pretraining: int,  # epochs in which the gate weighs all experts alike
    ) -> None:
        super().__init__()
        self.experts, self.gate_channels, self.settings = experts, gate, settings
        self.is_final = False
        self.likelihood = _likelihood(noise)
        self.to(device=noise.device, dtype=noise.dtype)
        self._generator = generator
        self._kappa, self._gate_noise = len(gate.values()[0]), settings.gate_noise
        self._pretraining = pretraining
        steps_down = max(self._kappa - settings.kappa, 1)
        self._epochs_per_kappa = min(settings.epochs_per_kappa, max(settings.max_epochs // (2 * steps_down), 1))

    def groups(self, settings: AdamSettings) -> list[dict[str, Any]]:
        eta, eta_H, eta_G = settings.learning_rate, settings.hyperparameter_rate, settings.gate_rate
        shared = [self.experts.constant, self.experts.log_scale, *self.likelihood.parameters()]
        return [
            {"params": self.experts.gp.values(), "lr": eta},
            {"params": shared, "lr": eta_H * eta},
            {"params": self.gate_channels.values(), "lr": eta_G * eta},
            {"params": [self.gate_channels.mean_module.raw_constant], "lr": eta_H * eta_G * eta},
        ]

    def loss(self, X: Inputs, y: Float[Tensor, " n"], n: int) -> Scalar:
        gate, weight = self._gate(X, noise=self._gate_noise), torch.ones_like(y)
        log_likelihood = self.likelihood.log_marginal(y, self.experts.posterior(X))
        loss = gated_negative_elbo(gate, log_likelihood, weight, self.experts.gp.divergence(), n)
        return loss + self.settings.penalty * small_bandwidth_penalty(expert_shares(gate, weight))

    def mean(self, X: Inputs) -> Float[Tensor, " n"]:
        return gated_mean(self._gate(X), self.experts.mean(X))

    def _gate(self, X: Inputs, noise: float = 0.0) -> Float[Tensor, "n L"]:
        if self._pretraining > 0:
            L = len(self.gate_channels.values()[0])
            return X.new_full((len(X), L), 1.0 / L)
        channels = self.gate_channels(X).mean.mT
        if noise > 0.0:
            draws = torch.randn(channels.shape, generator=self._generator, dtype=channels.dtype, device=channels.device)
            channels = channels + noise * draws
        return top_kappa_softmax(channels, self._kappa)

    def end_epoch(self, number: int) -> None:
        if self._pretraining > 0:
            self._pretraining -= 1
            return
        self._gate_noise *= self.settings.gate_noise_decay
        if self._kappa > self.settings.kappa and (number + 1) % self._epochs_per_kappa == 0:
            self._kappa -= 1
        self.is_final = self._kappa <= self.settings.kappa


@final
class SingleModel(GPyTorchModel):
    """One stock sparse Gaussian process of a learned bandwidth, trained on the evidence lower bound."""

    has_training_mode = is_final = True

    def __init__(self, start: Start, bandwidth: Float[Tensor, " d"]) -> None:
        super().__init__()
        mean, kernel = gpytorch.means.ConstantMean(), ScaleKernel(RBFKernel(ard_num_dims=len(bandwidth)))
        mean.initialize(constant=float(start.shared.mean))
        kernel.outputscale, kernel.base_kernel.lengthscale = float(start.shared.scale), bandwidth.tolist()
        distribution = CholeskyVariationalDistribution(len(start.inducing), mean_init_std=0.0)
        self.gp = SparseGP(start.inducing, mean, kernel, distribution)
        self.likelihood = _likelihood(start.shared.noise)
        self.to(device=start.inducing.device, dtype=start.inducing.dtype)

    def groups(self, settings: AdamSettings) -> list[dict[str, Any]]:
        eta, eta_H = settings.learning_rate, settings.hyperparameter_rate
        shared = [*self.gp.hyperparameters(), *self.likelihood.parameters()]
        return [{"params": self.gp.values(), "lr": eta}, {"params": shared, "lr": eta_H * eta}]

    def loss(self, X: Inputs, y: Float[Tensor, " n"], n: int) -> Scalar:
        bound = gpytorch.mlls.VariationalELBO(self.likelihood, self.gp, num_data=n)
        return cast(Tensor, -bound(self.gp(X), y))

    def mean(self, X: Inputs) -> Float[Tensor, " n"]:
        return cast(Tensor, self.gp(X).mean)

    def end_epoch(self, number: int) -> None:
        del number  # nothing changes from epoch to epoch


def gate_channels(inducing: Float[Tensor, "m d"], n_experts: int, *, bandwidth: float, scale: float) -> SparseGP:
    """The channels of the gate before the softmax: one factorisation for all, since only their values differ."""
    kernel = ScaleKernel(_fixed_kernel(inducing.new_tensor([bandwidth]))).requires_grad_(False)
    kernel.outputscale = scale
    batch = torch.Size([n_experts])
    mean = gpytorch.means.ConstantMean(batch_shape=batch)
    return SparseGP(inducing, mean, kernel, DeltaVariationalDistribution(len(inducing), batch, mean_init_std=0.0))


def _fixed_kernel(bandwidths: Bandwidths) -> RBFKernel:
    """One kernel per bandwidth, none of which is learned; a single one has no batch."""
    batch = torch.Size([len(bandwidths)] if len(bandwidths) > 1 else [])
    kernel = RBFKernel(batch_shape=batch).to(device=bandwidths.device, dtype=bandwidths.dtype)
    kernel.lengthscale = bandwidths.reshape(*batch, 1, 1)
    return kernel.requires_grad_(False)


def _likelihood(noise: Scalar) -> gpytorch.likelihoods.GaussianLikelihood:
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    likelihood.noise = max(float(noise), 1e-3)  # above the least that GPyTorch allows
    return likelihood
