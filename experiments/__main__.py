"""`python -m experiments NAME [options]` runs an experiment; without a name, the experiments are listed."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, NamedTuple

import typer

from lobal.cli.checks import plain_errors


class Experiment(NamedTuple):
    """The function that an experiment runs, as "module:function", and what it measures."""

    function: str
    summary: str


EXPERIMENTS = {
    "complexity_truth": Experiment(
        "experiments.complexity_truth:main", "local complexity compared with that of known functions"
    ),
    "doppler_fit": Experiment("experiments.doppler:fit_command", "one fit of the Doppler function, with figures"),
    "doppler_statistics": Experiment(
        "experiments.doppler:statistics_command", "errors of mixture and single-scale GP on random labels"
    ),
    "doppler_active": Experiment("experiments.doppler_active:main", "one arm, active or random, over seeds"),
    "doppler_curves": Experiment("experiments.doppler_curves:main", "table and figure from the files of both arms"),
    "density_edges": Experiment("experiments.density_edges:main", "errors of the density of a pool on known densities"),
    "inducing_density": Experiment(
        "experiments.inducing_density:main", "density and cost of inducing points by method"
    ),
    "inducing_errors": Experiment(
        "experiments.inducing_errors:main", "errors with default inducing points and k-means"
    ),
    "inducing_points": Experiment("experiments.inducing_points:main", "how many inducing points, and where"),
    "local_polynomials": Experiment(
        "experiments.local_polynomials:main", "local polynomials beside the mixture: estimates and learning curves"
    ),
    "malonaldehyde": Experiment("experiments.malonaldehyde:main", "force fields: random and active configurations"),
    "malonaldehyde_distances": Experiment(
        "experiments.malonaldehyde_distances:main", "how near spread configurations come to others"
    ),
    "malonaldehyde_report": Experiment("experiments.malonaldehyde_report:main", "relative sample sizes and figures"),
    "malonaldehyde_spread": Experiment(
        "experiments.malonaldehyde_spread:main", "random, drawn and spread configurations"
    ),
    "mesh": Experiment(
        "experiments.mesh.comparison:main", "grids of a flow: by local complexity, as solvers do, uniform"
    ),
    "noise": Experiment("experiments.noise:main", "noise estimates compared with held-out replicates"),
    "other_models": Experiment("experiments.other_models:main", "forest, RBF network, kernel ridge on active labels"),
    "patch_size": Experiment("experiments.patch_size:main", "how small a patch is found with how many labels"),
    "patches": Experiment("experiments.patch_size:named", "errors and noise of several patches"),
    "peers": Experiment("experiments.peers.campaigns:main", "lobal and its competitors on many problems"),
    "peers_calibration": Experiment("experiments.peers.calibration:main", "expected beside measured savings"),
    "peers_protocol": Experiment("experiments.peers.protocol:main", "the same by the protocol of bmdal-reg"),
    "peers_report": Experiment("experiments.peers.report:main", "tables and curves of that comparison"),
    "pools": Experiment("experiments.pools:main", "active and random sampling on a data file or a stationary control"),
    "sample_size_estimators": Experiment(
        "experiments.sample_size_estimators:main", "rho of the Doppler function by several estimators"
    ),
    "several_outputs": Experiment(
        "experiments.several_outputs:main", "two outputs: a common design, designs for one, random points"
    ),
    "simulator": Experiment(
        "experiments.simulator:main", "named inputs of a simulator: the default learner and random points"
    ),
    "tuning": Experiment("experiments.tuning:main", "errors and seconds with and without tuning"),
    "unchanged": Experiment("experiments.unchanged.comparison:main", "whether results are those of version 0.1.0"),
}


def command(name: str) -> typer.Typer:
    """The experiment as a command line application; errors in its input become messages with exit code 2."""
    module, function = EXPERIMENTS[name].function.split(":")
    application = typer.Typer(name=name, add_completion=False)
    application.command()(_with_plain_errors(getattr(import_module(module), function)))
    return application


def _with_plain_errors(function: Callable[..., None]) -> Callable[..., None]:
    @wraps(function)
    def run(*arguments: Any, **options: Any) -> None:  # noqa: ANN401 - those of the function
        with plain_errors():
            function(*arguments, **options)

    return run


def main(arguments: Sequence[str]) -> None:
    """Run the experiment named first with the options that follow, or list all experiments."""
    name, *options = arguments or ["--help"]
    if name in EXPERIMENTS:
        command(name)(options, prog_name=f"python -m experiments {name}")
        return
    print("usage: python -m experiments NAME [options]; NAME --help lists the options\n")
    for known, experiment in EXPERIMENTS.items():
        print(f"  {known:22}{experiment.summary}")
    if name != "--help":
        raise SystemExit(f"\nno experiment is called {name!r}")


if __name__ == "__main__":
    main(sys.argv[1:])
