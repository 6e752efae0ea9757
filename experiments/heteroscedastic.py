"""The Doppler function with noise that varies, Sec. 5.1 and Fig. (fig:dopplerHExperiment_data_pOpt_lob_rmse).

v(x) = (3 - 4 |x - 1/2|)^2 is known to the model in all arms. "aware" samples from the superior density with that noise,
"blind" from the one under the wrong assumption that it is constant, "random" from the test density; "homoscedastic" is
the problem with v = 1, whose local bandwidths are compared. Points are drawn as in the paper, without exploration.

python -m experiments heteroscedastic --scale quick --into docs/results
"""

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, final

import numpy as np
import typer
from jaxtyping import Float
from numpy import ndarray

from experiments.doppler_active import START, sizes_up_to
from experiments.figures.heteroscedastic import PLACES, noise_figure
from experiments.repetitions import Device, FirstSeed, Jobs, Output, Repetitions, Result, Seeds, print_summary
from lobal.active.candidates import Candidates, Metric
from lobal.active.learner import ActiveLearner
from lobal.active.mixture_surrogate import FittedMixtureSurrogate, MixtureSurrogate
from lobal.active.spaces import Box
from lobal.active.surrogate import FitTask, FittedSurrogate, NoiseFunction, Surrogate
from lobal.cli.demo import N_TEST, errors_on_grid
from lobal.core.doppler import Doppler
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.figures import save_figure

VARYING, CONSTANT = Doppler(heteroscedastic=True), Doppler()
SCHEME = {"draw": "random", "exploration": 0.0}  # the paper's
RANDOM = {"draw": "random", "exploration": 1.0}
ARMS = ("aware", "blind", "random", "homoscedastic")
NOISE = 5  # random stream of the labels' noise


@final
class FittedBlind(FittedSurrogate):
    """A fitted mixture that tells the learner of constant noise."""

    def __init__(self, seeing: FittedMixtureSurrogate) -> None:
        self._seeing = seeing
        self.model = seeing.model
        self.validation_error: float = seeing.validation_error
        self.noise: float = seeing.noise

    def predict(self, X: ndarray) -> ndarray:
        return self._seeing.predict(X)

    def local_bandwidth(self, X: ndarray) -> Float[ndarray, " n"]:
        return self._seeing.local_bandwidth(X)

    def metric(self, candidates: Candidates) -> Metric:
        return self._seeing.metric(candidates)

    def relative_error(self, labels: ndarray) -> float | None:
        return self._seeing.relative_error(labels)

    def noise_variance(self, X: ndarray) -> Float[ndarray, " n"]:
        return np.ones(len(X))

    def save(self, path: str | os.PathLike[str]) -> None:
        self._seeing.save(path)


@final
class BlindSurrogate(Surrogate):
    """Fits mixtures that know the noise, for a learner that does not."""

    kind: ClassVar[str] = "blind"

    def __init__(self, model: MixtureRegressor) -> None:
        self._seeing = MixtureSurrogate(model)

    def fit(self, task: FitTask) -> FittedBlind:
        return FittedBlind(self._seeing.fit(task))

    def load(self, path: str | os.PathLike[str]) -> FittedBlind:
        return FittedBlind(self._seeing.load(path))

    def to_settings(self) -> dict[str, Any]:
        return self._seeing.to_settings()

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, noise: NoiseFunction | None = None) -> "BlindSurrogate":
        return cls(MixtureSurrogate.from_settings(settings, noise=noise).model)

    def use_device(self, device: str) -> None:
        self._seeing.use_device(device)


def learner_for(arm: str, seed: int, *, n_inducing: int, device: str) -> ActiveLearner:
    """The learner of an arm before its first label."""
    problem = CONSTANT if arm == "homoscedastic" else VARYING
    model = MixtureRegressor(
        kernel="gaussian",
        n_inducing=n_inducing,
        noise=lambda X: problem.noise_variance(np.asarray(X)[:, 0]),
        device=device,
    )
    scheme: dict[str, Any] = RANDOM if arm == "random" else SCHEME
    return ActiveLearner(Box(0.0, 1.0), seed=seed, model=BlindSurrogate(model) if arm == "blind" else model, **scheme)


def run(n: int, seed: int, *, arm: str, start: int, n_inducing: int, device: str) -> Result:
    """Errors of one arm in columns such as "rmse_1024"; LOB and the density of all labels in the end."""
    learner = learner_for(arm, seed, n_inducing=n_inducing, device=device)
    problem, rng = (CONSTANT if arm == "homoscedastic" else VARYING), np.random.default_rng([seed, NOISE])
    result: Result = {"n": n, "seed": seed}

    def measure(learner: ActiveLearner) -> None:
        size, errors = len(learner.labelled.y), errors_on_grid(learner.model)
        result.update({f"{name}_{size}": value for name, value in errors._asdict().items()})

    learner.run(lambda X: problem.labels(X[:, 0], rng), sizes=sizes_up_to(n, start), callbacks=[measure])
    assert learner.model is not None  # sizes exceed the smallest training set
    profiles = {"local_bandwidth": learner.model.local_bandwidth(PLACES[:, None]), "density": density_of(learner)}
    return result | {name: [float(f"{value:.5g}") for value in values] for name, values in profiles.items()}


def density_of(learner: ActiveLearner) -> Float[ndarray, " places"]:
    """The density p_k of all labels at the places."""
    order = np.argsort(learner.candidates.X[:, 0])
    return np.asarray(np.interp(PLACES, learner.candidates.X[order, 0], learner.training_density()[order]))


def figure_command(
    folder: Annotated[Path, typer.Argument(help="Folder of the records of all arms.", exists=True, file_okay=False)],
    figure: Annotated[Path, typer.Option(help="File for the figure.")],
) -> None:
    """Draw data, local bandwidths, densities and errors from the records of all arms."""
    records = {arm: json.loads((folder / f"heteroscedastic_{arm}.json").read_text()) for arm in ARMS}
    save_figure(noise_figure({arm: record["results"] for arm, record in records.items()}, VARYING), figure)


def main(
    arm: Annotated[str, typer.Argument(help=f"One of {', '.join(ARMS)}.")],
    output: Output,
    n: Annotated[int, typer.Option(min=16, help="Labels at the end.")] = 2**15,
    start: Annotated[int, typer.Option(min=16, help="Uniform random labels at the beginning.")] = START,
    seeds: Seeds = 20,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    n_inducing: Annotated[int, typer.Option(min=1, help="Inducing points of the experts.")] = 512,
    device: Device = "cpu",
) -> None:
    """Repeat one arm over seeds; for equal seeds all arms start alike."""
    if arm not in ARMS:
        raise ValueError(f"the arm must be one of {', '.join(ARMS)}, got {arm!r}")
    options: dict[str, Any] = {"arm": arm, "start": start, "n_inducing": n_inducing, "device": device}
    repetitions = Repetitions(
        experiment=f"Doppler function with noise that varies, {arm} sampling",
        settings={**options, "n_test": N_TEST},
        run=partial(run, **options),
    )
    pairs = [(n, seed) for seed in range(first_seed, first_seed + seeds)]
    print_summary(repetitions.complete(pairs, output, jobs=jobs), n, "rmse")
