"""Force fields of malonaldehyde: lobal's ordinal gate and the paper's softmax gate on the same labels (Sec. 5.2).

Random configurations from the test distribution, the same with the same Sigma_E and ladder for all models: the single
anisotropic expert of least leave-one-out error, and mixtures of all experts. "ordinal" is lobal's gate, fitted to
leave-one-out predictions; "softmax" the paper's, trained on a gate set of further labels, drawn from q^(1/2) and
weighted by q / p; "left_out" the paper's, trained on leave-one-out predictions, without further labels. The complexity
at alpha = infinity, over relaxed configurations, is compared between the transition and the stable states, as in
`experiments.malonaldehyde_report`.

python -m experiments malonaldehyde_gate $LOBAL_DATA/malonaldehyde_gfn2_500K.npz \
    --grid $LOBAL_DATA/malonaldehyde_gfn2_relaxed_grid.npz --device cuda --output docs/results/malonaldehyde/gate.json
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import typer
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from experiments.figures.molecules import RotorMap, rotor_maps
from experiments.malonaldehyde import SIZES, WIDTH, Grid, Setting, field_settings, loaded
from experiments.malonaldehyde_report import as_fields, contrast, step, transition
from experiments.repetitions import Figure, FirstSeed, Output, Repetitions, Result, Seeds, mean_and_error, print_summary
from lobal.active.draws import draw_random
from lobal.core.density import importance_weights
from lobal.core.superior_density import local_complexity
from lobal.molecules.density import named_test_density
from lobal.molecules.field.forcefield import ForceField, errors_on
from lobal.molecules.field.gate import GateFeatures
from lobal.molecules.field.gate_labels import GateSet
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.softmax_options import SoftmaxGateOptions
from lobal.molecules.field.training import fit_force_field
from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.permutations import descriptor_permutations
from lobal.molecules.space import MoleculePool
from lobal.report.figures import save_figure

SINGLE, ORDINAL, SOFTMAX, LEFT_OUT = "anisotropic", "ordinal", "softmax", "left_out"
GATES = (ORDINAL, SOFTMAX, LEFT_OUT)
ERRORS = ("force_rmse", "energy_rmse")
COMPLEXITY = "complexity_smooth"  # of maps: at alpha = infinity
GATE_SEED = 1_000_000  # the gate set is drawn by another generator than the configurations of the experts
TITLES = {ORDINAL: "ordinal gate", SOFTMAX: "softmax gate", LEFT_OUT: "softmax gate, no further labels"}


class Gates(NamedTuple):
    """How the gates are learned."""

    names: tuple[str, ...]
    labels: int  # of the gate set
    options: SoftmaxGateOptions
    inducing: int  # of the softmax gate

    def settings(self, name: str, setting: Setting) -> ForceFieldSettings:
        """Of one of the gates; ladder, experts and Sigma_E are the same for all."""
        base = field_settings(setting)
        if name == ORDINAL:
            return base
        return replace(base, softmax_gate=self.options, gate_inducing=self.inducing)


def gate_set(setting: Setting, n: int, k: int, seed: int) -> GateSet:
    """k configurations from q^(1/2) with their importance weights, none of them among the first n of the experts."""
    density = setting.space.candidates(0).pool_density
    q = named_test_density(setting.space.test_density, density)
    chance = q.sqrt() / density
    chance[setting.rows(n, seed)] = 0.0
    generator = torch.Generator().manual_seed(GATE_SEED + seed)
    rows = draw_random(chance, setting.pool.R.flatten(1).numpy(), k, generator=generator)
    return GateSet(setting.pool.at(rows), importance_weights(q[rows], q[rows].sqrt()))


def fields(setting: Setting, gates: Gates, sizes: Sequence[int], seed: int) -> Iterator[tuple[str, int, ForceField]]:
    """The force fields with every gate at every size; Sigma_E is that of the first."""
    rows, shared = setting.rows(sizes[-1], seed), None
    further = gate_set(setting, sizes[-1], gates.labels, seed) if SOFTMAX in gates.names else None
    for n in sizes:
        for name in gates.names:
            field = fit_force_field(
                setting.pool.at(rows[:n]),
                gates.settings(name, setting),
                shared_bandwidth=shared,
                gate_set=further if name == SOFTMAX else None,
                generator=torch.Generator().manual_seed(seed),
            )
            shared = field.kernel.shared_bandwidth
            yield name, n, field


def run(n: int, seed: int, *, setting: Setting, gates: Gates, sizes: Sequence[int], grid: Grid) -> Result:
    """Errors and complexities of all gates up to n configurations, in columns such as "softmax_force_rmse_1024"."""
    result: Result = {"n": n, "seed": seed}
    begun = time.perf_counter()
    for name, size, field in fields(setting, gates, sizes, seed):
        seconds = time.perf_counter() - begun
        found = {**errors(field, setting), **at_transition(field, setting, grid), **about(field, setting)}
        if name == ORDINAL:
            single = field.expert(field.about["best_expert"])
            result |= {f"{SINGLE}_{key}_{size}": value for key, value in errors(single, setting).items()}
        result |= {f"{name}_{key}_{size}": value for key, value in {**found, "seconds": seconds}.items()}
        if size == n:
            result[f"{name}_map"] = np.round(complexities(field, setting, grid), 4).ravel().tolist()
        print(_line(name, size, seed, found, seconds), flush=True)
        begun = time.perf_counter()
    return result


def errors(field: ForceField, setting: Setting) -> dict[str, float]:
    """RMSE of forces and energies at the test configurations."""
    every = errors_on(field, setting.test, setting.weight)._asdict()
    return {name: every[name] for name in ERRORS}


def about(field: ForceField, setting: Setting) -> dict[str, float]:
    """How many experts share a prediction, exp of the entropy of their weights, and how the gate was trained."""
    assert field.gate is not None
    weights = field.gate.at(describe(setting.test.R.to(field.weights.device)))
    number = torch.special.entr(weights).sum(1).exp().mean().item()
    known = ("gate_epochs", "mean_moved", "log_scale_moved")
    return {"experts": number} | {name: float(field.about[name]) for name in known if name in field.about}


def complexities(field: ForceField, setting: Setting, grid: Grid) -> Float[ndarray, "k k"]:
    """LFC at alpha = infinity over the rotor angles, in units of the median."""
    sigma = torch.from_numpy(field.local_bandwidth(grid.R.reshape(-1, *grid.R.shape[2:])))
    found = local_complexity(sigma, torch.ones_like(sigma), smoothness=math.inf, dimension=setting.dimension)
    return (found / found.median()).reshape(grid.energies.shape).numpy()


def at_transition(field: ForceField, setting: Setting, grid: Grid) -> dict[str, float]:
    """Complexity in the upper half of the barrier by that at the more complex of the stable states.

    And the share of the gate's prior variance that its inducing configurations explain at both: little where they are
    far.
    """
    drawn = {"energy": grid.energies, COMPLEXITY: complexities(field, setting, grid)}
    found = transition(grid.energies)
    assert field.gate is not None
    features, values = field.gate.features, describe(torch.from_numpy(grid.R).flatten(0, 1).to(field.weights)).values
    share = features(values).square().sum(1) / prior_variance(values, features)
    explained = share.view(grid.energies.shape).cpu().numpy()
    parts = {"top": found.top(grid.energies), "states": found.states}
    known = {f"explained_{name}": float(np.mean([explained[place] for place in at])) for name, at in parts.items()}
    return {"ratio": contrast([drawn], COMPLEXITY).ratio[0], **known}


def prior_variance(values: Float[Tensor, "n D"], features: GateFeatures) -> Float[Tensor, " n"]:
    """k(z, z) of the symmetrised kernel, more than one near symmetric configurations."""
    images = values[:, descriptor_permutations(features.permutations)]
    squared = (images - values[:, None]).square().sum(2)
    return torch.exp(-0.5 * squared / features.width.square()).sum(1)


def conclude(results: Sequence[Result], *, gates: Gates, sizes: Sequence[int]) -> dict[str, Any]:
    """Relative sample sizes against the single expert and between the gates, and ratios of complexities."""
    if not results:
        return {}
    models = [SINGLE, *gates.names] if ORDINAL in gates.names else list(gates.names)
    rows = [
        {"model": model, "n": n, "seed": result["seed"], **{name: result[f"{model}_{name}_{n}"] for name in ERRORS}}
        for result in results
        for model in models
        for n in sizes
    ]
    pairs = [(model, reference) for reference in (SINGLE, ORDINAL) for model in gates.names]
    pairs = [pair for pair in pairs if {*pair} <= {*models} and pair[0] != pair[1]]
    return {
        "relative_sample_sizes": {name: [as_fields(step(rows, *pair, name)) for pair in pairs] for name in ERRORS},
        "transition": {
            name: {str(n): mean_and_error([result[f"{name}_ratio_{n}"] for result in results]) for n in sizes}
            for name in gates.names
        },
    }


def draw_maps(results: Sequence[Result], gates: Gates, grid: Grid, path: Path) -> None:
    """The complexity by each gate over the rotor angles, after most labels: geometric means of the repetitions."""
    found = transition(grid.energies)
    places = {"stable": found.states, "transition": found.top(grid.energies)}
    marks = {name: np.array([[angles[i] for angles, i in zip(grid.angles, at, strict=True)] for at in where])
             for name, where in places.items()}  # fmt: skip
    shown = {"energy": RotorMap(grid.energies, "eV")}
    for name in gates.names:
        mean = np.exp(np.mean([np.log(result[f"{name}_map"]) for result in results], axis=0))
        shown[TITLES[name]] = RotorMap(mean.reshape(grid.energies.shape), r"complexity, $\alpha = \infty$", log=True)
    save_figure(rotor_maps(*grid.angles, shown, marks=marks), path)


def _line(name: str, n: int, seed: int, found: dict[str, float], seconds: float) -> str:
    return (
        f"{name:9} n {n:5} seed {seed}: force {1e3 * found['force_rmse']:.3f} meV/Ang, energy "
        f"{1e3 * found['energy_rmse']:.4f} meV, transition {found['ratio']:.3f}, {seconds:.1f} s"
    )


def main(
    data: Annotated[Path, typer.Argument(help="Trajectories with energies and forces, for example GFN2's.")],
    grid: Annotated[Path, typer.Option(help="Configurations relaxed over the rotor angles.")],
    output: Output,
    sizes: Annotated[str, typer.Option(help="Numbers of configurations, separated by commas.")] = SIZES,
    seeds: Seeds = 5,
    first_seed: FirstSeed = 0,
    gates: Annotated[str, typer.Option(help="Gates to compare, separated by commas.")] = ",".join(GATES),
    gate_labels: Annotated[int, typer.Option(min=8, help="Configurations of the gate set, n_G.")] = 2**14,
    gate_inducing: Annotated[int, typer.Option(min=1, help="Inducing configurations of the softmax gate.")] = 1024,
    max_epochs: Annotated[int, typer.Option(min=1, help="Most epochs of the softmax gate.")] = 300,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
    figure: Figure = None,
) -> None:
    """Errors and complexities of mixtures of force fields with the ordinal and the softmax gate."""
    names, numbers = tuple(gates.split(",")), [int(part) for part in sizes.split(",")]
    if not {*names} <= {*GATES}:
        raise typer.BadParameter(f"gates must be some of {', '.join(GATES)}, got {gates}")
    pool, test = loaded(data)
    setting = Setting(space=MoleculePool(pool, width=WIDTH, device=device), test=test)
    how = Gates(names, gate_labels, SoftmaxGateOptions(max_epochs=max_epochs), gate_inducing)
    angles = Grid.read(grid)
    repetitions = Repetitions(
        experiment="force fields of malonaldehyde, ordinal and softmax gate",
        settings={
            "data": data.name,
            "sizes": numbers,
            "gates": list(names),
            "gate_labels": gate_labels,
            "gate_inducing": gate_inducing,
            "max_epochs": max_epochs,
            "device": device,
        },
        run=partial(run, setting=setting, gates=how, sizes=numbers, grid=angles),
        conclude=partial(conclude, gates=how, sizes=numbers),
    )
    done = repetitions.complete([(numbers[-1], seed) for seed in range(first_seed, first_seed + seeds)], output)
    print_summary(done, numbers[-1], "force_rmse", "energy_rmse", "ratio")
    if figure is not None:
        draw_maps(done["results"], how, angles, figure)
