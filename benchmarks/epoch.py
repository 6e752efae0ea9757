"""Seconds of one training epoch on one core, next to the floor set by reading the features.

An epoch reads every feature three times: gathered into a batch, multiplied forward, and multiplied backward. The
floor is the time in which this machine copies that many bytes.

usage: python benchmarks/epoch.py [--n 4096] [--m 512]
"""

import argparse
import time

import torch

from lobal.core.dataset import LabelledSet
from lobal.core.kernels import WhitenedFeatures, gaussian
from lobal.experts.interface import Hyperparameters
from lobal.mixture.adam.responses import SparseResponses
from lobal.mixture.adam.training import AdamSettings, Trainer
from lobal.mixture.gate import SoftmaxGate

EPOCHS = 10


def features(m: int, bandwidths: torch.Tensor) -> WhitenedFeatures:
    """Features at an even grid of m points."""
    grid = torch.linspace(0, 1, m, dtype=torch.float64)[:, None]
    return WhitenedFeatures.at(grid, bandwidths=bandwidths, shared=torch.ones((), dtype=torch.float64), kernel=gaussian)


def sample(n: int) -> LabelledSet:
    """Inputs and labels without meaning: the time does not depend on them."""
    x = torch.rand(n, dtype=torch.float64)
    return LabelledSet(X=x[:, None], y=torch.sin(20 * x), weight=torch.ones_like(x))


def main() -> None:
    """Print the seconds of an epoch, the floor and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--m", type=int, default=512)
    sizes = parser.parse_args()
    torch.set_num_threads(1)
    bandwidths = 10.0 ** ((torch.arange(1, 8, dtype=torch.float64) - 10) / 3)
    start = Hyperparameters(*(torch.tensor(value, dtype=torch.float64) for value in (0.0, 1.0, 0.1)))
    responses = SparseResponses(sample(sizes.n), sample(1024), features(sizes.m, bandwidths), start)
    gate = SoftmaxGate.uniform(features(128, torch.tensor([0.05], dtype=torch.float64)), n_experts=7, scale=10.0)
    trainer = Trainer(responses, gate, AdamSettings(max_epochs=EPOCHS), torch.Generator().manual_seed(0))
    begun = time.perf_counter()
    trainer.run()
    epoch = (time.perf_counter() - begun) / EPOCHS
    values, target = (torch.rand(7 * sizes.n * sizes.m, dtype=torch.float64) for _ in range(2))
    begun = time.perf_counter()
    for _ in range(3):
        target.copy_(values)
    floor = time.perf_counter() - begun
    print(
        f"n {sizes.n}, m {sizes.m}, L 7, B 512: {epoch:.3f} s an epoch, floor {floor:.3f} s, ratio {epoch / floor:.1f}"
    )


if __name__ == "__main__":
    main()
