"""Tables and figures of the experiment with malonaldehyde, from its records.

python -m experiments.malonaldehyde_report docs/results/malonaldehyde --figures docs/results/figures \
    --grid $LOBAL_DATA/malonaldehyde_gfn2_relaxed_grid.npz
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from jaxtyping import Float
from numpy import ndarray
from rich.console import Console
from rich.table import Table
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from experiments.figures.errors import ErrorCurve, error_panels
from experiments.figures.molecules import RotorMap, bandwidth_figure, rotor_maps
from experiments.malonaldehyde import ACTIVE, ANISO, ISO, MIXTURE, MODELS
from experiments.repetitions import Result
from lobal.molecules.density import TEST_DENSITIES
from lobal.report.figures import save_figure
from lobal.report.savings import Savings, pooled_errors, relative_sample_sizes

NAMES = {
    ISO: "sGDML, isotropic",
    ANISO: "sGDML, anisotropic",
    MIXTURE: "mixture",
    ACTIVE: "mixture, active",
}
ERRORS = {
    "force_rmse": "forces, RMSE (meV/Å)",
    "force_mae": "forces, MAE (meV/Å)",
    "energy_rmse": "energies, RMSE (meV)",
    "energy_mae": "energies, MAE (meV)",
}
# What is compared with what: each step by itself, and all together.
STEPS = ((ANISO, ISO), (MIXTURE, ANISO), (ACTIVE, MIXTURE), (MIXTURE, ISO), (ACTIVE, ISO))
UPPER_HALF = 0.5  # of the barrier, that counts as the transition
THERMAL_ENERGY = 0.0431  # kT at 500 K, eV


class Step(NamedTuple):
    """What a step saves, by the paper's formula and by the slope of the learning curve."""

    model: str
    reference: str
    savings: Savings  # by RMSE ~ n^(-1/2), Eq. (eq:relSampleSizeGPRApprox)
    slope: float  # tau in RMSE ~ n^-tau, of the reference

    @property
    def measured(self) -> tuple[float, float | None]:
        """The relative sample size at the measured slope, and its standard error."""
        rho, error = self.savings.overall
        factor = 0.5 / self.slope
        return rho**factor, None if error is None else factor * rho ** (factor - 1.0) * error


def matrix(results: Sequence[Result], model: str, error: str) -> Float[ndarray, "seeds sizes"]:
    """Errors of one model by seed and size."""
    rows = [row for row in results if row["model"] == model]
    seeds, sizes = sorted({row["seed"] for row in rows}), sorted({row["n"] for row in rows})
    found = {(row["seed"], row["n"]): row[error] for row in rows}
    complete = [seed for seed in seeds if all((seed, n) in found for n in sizes)]
    return np.array([[found[seed, n] for n in sizes] for seed in complete])


def step(results: Sequence[Result], model: str, reference: str, error: str) -> Step:
    """How many labels a model needs by those of the reference, for the same error."""
    ours, theirs = matrix(results, model, error), matrix(results, reference, error)
    sizes = np.array(sorted({row["n"] for row in results}))
    slope = -np.polyfit(np.log(sizes), np.log(pooled_errors(theirs)[0]), 1)[0]
    savings = relative_sample_sizes(ours, theirs, smoothness=math.inf, dimension=2.0)
    return Step(model, reference, savings, float(slope))


def as_fields(each: Step) -> dict[str, Any]:
    """The same for a file."""
    (rho, error), (measured, measured_error) = each.savings.overall, each.measured
    return {
        "model": each.model,
        "reference": each.reference,
        "rho_by_size": each.savings.rho.tolist(),
        "rho": rho,
        "standard_error": error,
        "slope": each.slope,
        "rho_at_slope": measured,
        "standard_error_at_slope": measured_error,
    }


class Transition(NamedTuple):
    """Two stable states on a map over the rotor angles, and the easiest path between them."""

    states: tuple[tuple[int, int], tuple[int, int]]
    path: list[tuple[int, int]]  # places of the grid from one to the other
    barrier: float  # eV above the first

    def top(self, energy: Float[ndarray, "k k"]) -> list[tuple[int, int]]:
        """The places of the path in the upper half of the barrier."""
        least = energy[self.states[0]] + UPPER_HALF * self.barrier
        return [place for place in self.path if energy[place] >= least]


def transition(energy: Float[ndarray, "k k"]) -> Transition:
    """The transition between the lowest two minima that are no images of each other.

    Angles are periodic, the last row and column those of the first. Exchanging the angles, or the sign of both, leaves
    the molecule the same. The path is the one that is easiest to go at 500 K.
    """
    k = len(energy) - 1
    E = energy[:k, :k]
    minima = [(i, j) for i in range(k) for j in range(k) if E[i, j] <= _around(E, i, j).min()]
    first, *others = sorted(minima, key=lambda place: float(E[place]))
    images = {
        (i % k, j % k) for i, j in ((first[0], first[1]), first[::-1], (-first[0], -first[1]), (-first[1], -first[0]))
    }
    second = next((place for place in others if place not in images), None)
    if second is None:
        raise ValueError("the energies have one stable state alone, and there is no transition")
    path = _easiest_path(E, first, second)
    barrier = max(float(E[place]) for place in path) - float(E[first])
    return Transition((first, second), path, barrier)


def _around(E: Float[ndarray, "k k"], i: int, j: int) -> Float[ndarray, "3 3"]:
    k = len(E)
    return E[np.ix_([(i + d) % k for d in (-1, 0, 1)], [(j + d) % k for d in (-1, 0, 1)])]


def _easiest_path(E: Float[ndarray, "k k"], start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """The path of least sum of exp(E / kT) along it, in steps to any of eight neighbours."""
    k = len(E)
    number, resistance = np.arange(k * k).reshape(k, k), np.exp((E - E.min()) / THERMAL_ENERGY)
    edges: list[ndarray] = []
    for move in ((0, 1), (1, 0), (1, 1), (1, -1)):
        there = np.roll(number, move, (0, 1))
        cost = math.hypot(*move) * 0.5 * (resistance.ravel()[number] + resistance.ravel()[there])
        edges.append(np.stack([number, there, cost], -1).reshape(-1, 3))
    first, second, cost = np.concatenate(edges).T
    graph = coo_array((cost, (first.astype(np.int32), second.astype(np.int32))), shape=(k * k, k * k))
    before = dijkstra(graph.tocsr(), directed=False, indices=number[start], return_predecessors=True)[1]
    path = [int(number[end])]
    while path[-1] != number[start]:
        path.append(int(before[path[-1]]))
    return [(int(i), int(j)) for i, j in zip(*np.unravel_index(path[::-1], E.shape), strict=True)]


class Contrast(NamedTuple):
    """How complex the energy is at the top of the transition and at the stable states, for every repetition."""

    top: Float[ndarray, " r"]
    states: Float[ndarray, "r 2"]

    @property
    def ratio(self) -> tuple[float, float | None]:
        """Top by the more complex of the states, and the standard error of that, of several repetitions."""
        each = self.top / self.states.max(1)
        error = None if len(each) < 2 else float(each.std(ddof=1) / math.sqrt(len(each)))
        return float(each.mean()), error

    def as_fields(self) -> dict[str, Any]:
        """The same for a file."""
        ratio, error = self.ratio
        return {"at_top": self.top.tolist(), "at_states": self.states.tolist(), "ratio": ratio, "standard_error": error}


def contrast(drawn: Sequence[dict[str, Any]], name: str = "complexity") -> Contrast:
    """From the maps of all repetitions."""
    energy, maps = np.array(drawn[0]["energy"]), [np.array(each[name]) for each in drawn]
    found = transition(energy)
    top = [np.mean([each[place] for place in found.top(energy)]) for each in maps]
    return Contrast(np.array(top), np.array([[each[place] for place in found.states] for each in maps]))


def average(drawn: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One map for all repetitions: geometric means of what they differ in."""
    differ = ("local_bandwidth", "complexity_smooth", "complexity", "superior_density", "shared", "smoothness")
    means = {name: np.exp(np.mean([np.log(each[name]) for each in drawn], axis=0)) for name in differ}
    return drawn[0] | {name: mean.tolist() for name, mean in means.items()}


def about_transition(drawn: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Where it is, how high, and how complex."""
    energy = np.array(drawn[0]["energy"])
    found = transition(energy)
    return {
        "stable_states": [_angles(drawn[0], place) for place in found.states],
        "energies": [float(energy[place]) for place in found.states],
        "barrier": found.barrier,
        "top": [_angles(drawn[0], place) for place in found.top(energy)],
        **{name: contrast(drawn, name).as_fields() for name in ("complexity", "complexity_smooth")},
    }


def _angles(drawn: dict[str, Any], place: tuple[int, int]) -> list[float]:
    return [drawn["phi1"][place[0]], drawn["phi2"][place[1]]]


def curves(results: Sequence[Result]) -> dict[str, dict[str, ErrorCurve]]:
    """Learning curves of all models for every kind of error, in meV."""
    sizes = np.array(sorted({row["n"] for row in results}))
    panels: dict[str, dict[str, ErrorCurve]] = {}
    for error, label in ERRORS.items():
        panels[label] = {}
        for model in MODELS:
            mean, spread = pooled_errors(1e3 * matrix(results, model, error))
            panels[label][NAMES[model]] = ErrorCurve(sizes, mean, np.zeros_like(mean) if spread is None else spread)
    return panels


def draw_maps(drawn: dict[str, Any], path: Path) -> None:
    """Energy, pool density, local bandwidth, complexity and superior density over the rotor angles."""
    values = {name: np.array(drawn[name]) for name in MAPS}
    found = transition(values["energy"])
    marks = {
        "stable": np.array([_angles(drawn, place) for place in found.states]),
        "transition": np.array([_angles(drawn, place) for place in found.top(values["energy"])]),
    }
    shown = {title: RotorMap(values[name], label, log) for name, (title, label, log) in MAPS.items()}
    save_figure(rotor_maps(np.array(drawn["phi1"]), np.array(drawn["phi2"]), shown, marks=marks), path)


MAPS = {
    "energy": ("energy", "eV", False),
    "pool_density": ("density of the pool", "median = 1", True),
    "local_bandwidth": ("local bandwidth", r"by $\Sigma_E$", False),
    "complexity_smooth": (r"complexity, $\alpha = \infty$", "median = 1", True),
    "complexity": (r"complexity, $\alpha$ as measured", "median = 1", True),
    "superior_density": ("superior density", "mean = 1", True),
}


def main(
    folder: Annotated[Path, typer.Argument(help="Folder of the experiment's records.")],
    figures: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("out/malonaldehyde"),
    grid: Annotated[
        Path | None, typer.Option(help="Relaxed configurations, of which one is drawn with Sigma_E.")
    ] = None,
) -> None:
    """Print relative sample sizes, keep them in summary.json, and draw."""
    console, kept = Console(), {}
    for name in TEST_DENSITIES:
        record = folder / f"{name}.json"
        if not record.exists():
            continue
        results = json.loads(record.read_text())["results"]
        steps = {error: [step(results, *pair, error) for pair in STEPS] for error in ERRORS}
        kept[name] = {
            "relative_sample_sizes": {error: [as_fields(each) for each in rows] for error, rows in steps.items()},
        }
        console.print(_table(name, results, steps))
        save_figure(error_panels(curves(results)), figures / f"malonaldehyde_curves_{name}.png")
        if (folder / f"maps_{name}.json").exists():
            every = json.loads((folder / f"maps_{name}.json").read_text())
            drawn = average(every)
            kept[name] |= {"smoothness": drawn["smoothness"], "transition": about_transition(every)}
            draw_maps(drawn, figures / f"malonaldehyde_maps_{name}.png")
            if grid is not None:
                _draw_bandwidth(drawn, grid, figures / f"malonaldehyde_bandwidths_{name}.png")
    (folder / "summary.json").write_text(json.dumps(kept, indent=1) + "\n")


def _draw_bandwidth(drawn: dict[str, Any], grid: Path, path: Path) -> None:
    """Sigma_E on the configuration in which all atoms but two lie in a plane."""
    with np.load(grid) as file:
        flat = [list(file[angle]).index(180) for angle in ("phi1", "phi2")]
        save_figure(bandwidth_figure(file["z"], file["R"][flat[0], flat[1]], np.array(drawn["shared"])), path)


def _table(name: str, results: Sequence[Result], steps: dict[str, list[Step]]) -> Table:
    table = Table(title=f"relative sample sizes, test distribution: {name}")
    for column in ("", *ERRORS):
        table.add_column(column)
    for model in MODELS:
        errors = [1e3 * pooled_errors(matrix(results, model, error))[0] for error in ERRORS]
        table.add_row(NAMES[model], *(" ".join(f"{value:.3g}" for value in each) for each in errors))
    for number, (model, reference) in enumerate(STEPS):
        cells = [_cell(steps[error][number]) for error in ERRORS]
        table.add_row(f"{NAMES[model]} / {NAMES[reference]}", *cells)
    return table


def _cell(each: Step) -> str:
    (rho, error), (measured, _) = each.savings.overall, each.measured
    return f"{rho:.3f} ± {error or 0.0:.3f} ({measured:.3f})"


if __name__ == "__main__":
    typer.run(main)
