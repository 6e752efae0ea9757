"""The tables of the documentation, and numbers that are computed from several entries of the records."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from docs.calibration_tables import CALIBRATION
from docs.gate_tables import GATE_DERIVED, GATE_TABLES
from docs.growth_tables import GROWTH, GROWTH_DERIVED
from docs.mesh_tables import MESH
from docs.peers_tables import PEERS
from docs.records import RESULTS, markdown, mean, record
from docs.reproduction_tables import REPRODUCTION, REPRODUCTION_DERIVED
from docs.sample_size_tables import DERIVED_SAMPLE_SIZES, SAMPLE_SIZES
from docs.simulator_tables import SIMULATOR
from experiments.doppler_curves import Arm, compared
from experiments.inducing_density import COLUMNS, METHODS
from experiments.inducing_errors import DATA_SETS
from experiments.inducing_points import ARMS, SIZES, TARGETS, curve
from experiments.local_polynomials import HEADER as LOCAL_HEADER
from experiments.local_polynomials import rows as local_rows
from experiments.other_models import FAMILIES, errors_by_seed, savings
from experiments.repetitions import mean_and_error, values_by_seed
from experiments.tuning import MODELS
from lobal.report.savings import pooled_errors, relative_sample_sizes


def _transposed(columns: dict[str, Sequence[str]]) -> str:
    return markdown([*columns], zip(*columns.values(), strict=True))


# Doppler function


def _rho(active: str, random: str) -> dict[str, dict[str, float | None]]:
    arms = [Arm.read(RESULTS / f"{name}.json") for name in (active, random)]
    sizes, saved = compared(*arms)
    errors = [None] * len(sizes) if saved.standard_error is None else saved.standard_error.tolist()
    return {
        str(size): {"rho": rho, "standard_error": error}
        for size, rho, error in zip(sizes, saved.rho.tolist(), errors, strict=True)
    }


def _doppler_columns(active: str, random: str, sizes: Sequence[int], digits: int) -> dict[str, Sequence[str]]:
    rows = {name: record(name)["summary"][0] for name in (active, random)}
    rho = _rho(active, random)
    return {
        "labels": [str(size) for size in sizes],
        "active": [mean(rows[active][f"rmse_{size}"], f".{digits}f") for size in sizes],
        "random": [mean(rows[random][f"rmse_{size}"], f".{digits}f") for size in sizes],
        "rho": [mean(rho[str(size)], ".2f") for size in sizes],
    }


def _doppler(active: str, random: str, sizes: Sequence[int]) -> str:
    """Errors of both arms and rho alone."""
    return _transposed(_doppler_columns(active, random, sizes, 3))


def _doppler_full(active: str, random: str, sizes: Sequence[int], other_random: str | None = None) -> str:
    """The same with oracle, expected rho and largest errors."""
    rows = {name: record(name)["summary"][0] for name in (active, random)}
    columns = _doppler_columns(active, random, sizes, 4)
    if other_random is not None:
        other = _rho(active, other_random)
        columns["rho, m = 512 in both"] = [mean(other[str(size)], ".2f") for size in sizes]
    columns["expected rho"] = [f"{1 - rows[active][f'expected_savings_{size}']['mean']:.2f}" for size in sizes]
    columns["oracle, active labels"] = [f"{rows[active][f'oracle_rmse_{size}']['mean']:.4f}" for size in sizes]
    columns["max. error active / random"] = [
        " / ".join(f"{rows[name][f'max_error_{size}']['mean']:.2f}" for name in (active, random)) for size in sizes
    ]
    return _transposed(columns)


def _constant_penalty() -> dict[str, Any]:
    results, sizes = record("doppler_constant_penalty")["results"], [1024, 2048, 4096]
    arms = (values_by_seed(results, f"{arm}_rmse", sizes) for arm in ("active", "random"))
    saved = relative_sample_sizes(*arms, smoothness=math.inf, dimension=1.0)
    assert saved.standard_error is not None
    return {str(size): {"rho": saved.rho[k], "standard_error": saved.standard_error[k]} for k, size in enumerate(sizes)}


def _slope() -> dict[str, float]:
    """The power of n with which the active error falls from 2048 labels on."""
    sizes = [2048, 4096, 8192, 16384, 32768]
    errors = [record("doppler_curve_active")["summary"][0][f"rmse_{size}"]["mean"] for size in sizes]
    return {"active": float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])}


def _shrunk() -> dict[str, Any]:
    """Mean growth of the error, in percent, when inducing points were reduced, and the numbers that were left."""
    with_, without = (record(f"shrink_{name}")["results"] for name in ("with", "without"))
    pairs = {(a["seed"], b["seed"]) for a, b in zip(with_, without, strict=True)}
    assert all(a == b for a, b in pairs)
    growth = {
        str(n): mean_and_error(
            [100 * (a[f"rmse_{n}"] / b[f"rmse_{n}"] - 1) for a, b in zip(with_, without, strict=True)]
        )
        for n in (2048, 4096, 8192)
    }
    left = record("shrink_with")["summary"][0]
    return growth | {"experts": left["n_inducing_8192"]["mean"], "gate": left["n_gate_inducing_8192"]["mean"]}


# Other experiments


def _pools() -> str:
    rows = []
    for name in ("thermal_cavity_098", "volcano", "uci_kin40k", "stationary"):
        content = record(f"pool_{name}")
        saved = content["savings"]
        rows.append(
            [
                "stationary control" if name == "stationary" else name,
                ", ".join(map(str, saved["sizes"])),
                str(len(content["results"])),
                f"{mean(saved['overall'], '.2f')} ({', '.join(f'{rho:.2f}' for rho in saved['rho'])})",
                ", ".join(f"{1 - share:.2f}" for share in saved["expected_savings"]),
                saved["verdict"].split(" (")[0],
            ]
        )
    return markdown(["pool", "labels", "seeds", "rho", "expected rho", "verdict"], rows)


def _inducing() -> str:
    results = record("inducing_points")["results"]
    titles = {"p": "p", "geometric": "sqrt(p LFC)", "lfc": "LFC"}
    rows = [
        [
            arm,
            titles[name],
            *(f"{error:.3g}" for error in pooled_errors(curve(results, f"fitted_{arm}_{name}", SIZES).rmse)[0]),
        ]
        for arm in ARMS
        for name in TARGETS
    ]
    return markdown(["labels", "points follow", *map(str, SIZES)], rows)


def _tuning() -> str:
    numbers = record("tuning")["summary"][0]
    rows = [
        [model.title, mean(numbers[f"{name}_rmse"], ".3f"), f"{numbers[f'{name}_cpu_seconds']['mean']:.1f}"]
        for name, model in MODELS.items()
    ]
    return markdown(["model", "RMSE", "CPU seconds"], rows)


def _noise() -> str:
    numbers = record("noise_ato")["summary"][0]
    shown = {"rank": "rank correlation", "ratio": "estimated / true variance", "follows": "density with noise"}
    rows = [[str(k), *(mean(numbers[f"{name}_{k}"], ".2f") for name in shown)] for k in (1, 2, 5)]
    return markdown(["labels per row", *shown.values()], rows)


def _regression() -> str:
    rows = []
    for path in sorted((RESULTS / "regression").glob("*.json")):
        numbers = record(f"regression.{path.stem}")["summary"][0]
        errors = [mean(numbers[f"{method}_error"], ".4f") for method in ("mixture", "svgp", "exact")]
        rows.append([path.stem, str(numbers["n"]), str(numbers["repetitions"]), *errors])
    return markdown(["data set", "training rows", "draws", "mixture", "SVGP", "exact, at most 2000 rows"], rows)


def _other_models() -> str:
    results = record("other_models")["results"]
    rows = []
    for name, family in FAMILIES.items():
        errors = [
            f"{pooled_errors(errors_by_seed(results, name, arm))[0][-1]:.3f}"
            for arm in ("random", "active", "weighted")
        ]
        saved = [mean(savings(results, name, arm).overall._asdict(), ".2f") for arm in ("active", "weighted")]
        rows.append([family.title, *errors, *saved])
    return markdown(["model", "random", "active", "active, weighted", "rho, active", "rho, weighted"], rows)


def _malonaldehyde(test_density: str) -> dict[str, Any]:
    """rho of each model against the one before: anisotropic, mixture, active, by the RMSE of the forces."""
    steps = record("malonaldehyde.summary")[test_density]["relative_sample_sizes"]["force_rmse"][:3]
    return {step["model"]: {name: step[name] for name in ("rho", "standard_error")} for step in steps}


def _estimated_dimension() -> dict[str, Any]:
    """Errors of active campaigns with estimated intrinsic dimension by those with the given one, at 2048 labels."""

    def errors(name: str, kind: str) -> dict[int, float]:
        entries = record(f"malonaldehyde.{name}")["results"]
        return {each["seed"]: each[kind] for each in entries if (each["model"], each["n"]) == ("active", 2048)}

    kinds = ("force_rmse", "energy_rmse")
    pairs = {kind: (errors("estimated_dimension", kind), errors("pool", kind)) for kind in kinds}
    return {kind: mean_and_error([new[seed] / old[seed] for seed in new]) for kind, (new, old) in pairs.items()}


def _malonaldehyde_errors(name: str) -> str:
    """Mean over the repetitions of the RMSE of forces and energies at all sizes, in thousandths."""
    results = record(name)["results"]
    sizes, models = (list(dict.fromkeys(result[key] for result in results)) for key in ("n", "model"))

    def shown(model: str, measure: str) -> str:
        rows = [[r[measure] for r in results if (r["model"], r["n"]) == (model, n)] for n in sorted(sizes)]
        return ", ".join(f"{1e3 * np.sqrt(np.mean(np.square(row))):.3g}" for row in rows)

    return markdown(
        ["model", "forces, meV/Å", "energies, meV"],
        [[model, shown(model, "force_rmse"), shown(model, "energy_rmse")] for model in models],
    )


def _malonaldehyde_rho(name: str, test_density: str) -> str:
    """rho of one model against another, and rho by the measured slope of the learning curves."""
    sizes = record(name)[test_density]["relative_sample_sizes"]

    def shown(step: dict[str, Any]) -> str:
        return f"{step['rho']:.3f} ± {step['standard_error']:.3f} ({step['rho_at_slope']:.2f})"

    pairs = zip(sizes["force_rmse"], sizes["energy_rmse"], strict=True)
    return markdown(
        ["models", "forces", "energies"],
        [[f"{force['model']} / {force['reference']}", shown(force), shown(energy)] for force, energy in pairs],
    )


def _sgdml() -> str:
    results = record("malonaldehyde.sgdml")["results"]

    def row(title: str, key: str) -> list[str]:
        parts = [result[key] for result in results]
        errors = ", ".join(f"{1e3 * part['force_rmse']:.1f} / {1e3 * part['force_mae']:.1f}" for part in parts)
        return [title, errors, ", ".join(f"{part['cpu_seconds']:.1f}" for part in parts)]

    equal = [result["equal_settings"] for result in results]
    same = f"equal to {max(part['relative_difference'] for part in equal):.0e}"
    seconds = ", ".join(f"{part['cpu_seconds']:.1f}" for part in equal)
    return markdown(
        ["", "forces, RMSE / MAE (meV/Å)", "CPU seconds"],
        [
            row("sgdml, sigma = 15", "sgdml"),
            ["lobal, the same kernel and settings", same, seconds],
            row("lobal, defaults", "defaults"),
            row("lobal, `--anisotropy tied`", "anisotropic"),
        ],
    )


# Seconds


def _methods(name: str, *methods: str) -> str:
    rows = []
    for row in (row for row in record(name)["rows"] if row["method"] in methods):
        cut = "" if row["is_finished"] else " (cut off)"
        epoch = "" if row["seconds_per_epoch"] is None else f"{row['seconds_per_epoch']:.3g}"
        rmse = f"{row['rmse']:.3f}" if row["is_finished"] else ""
        rows.append([str(row["n"]), row["method"], f"{row['seconds']:.3g}{cut}", epoch, f"{row['peak_mib']:.0f}", rmse])
    return markdown(["n", "method", "seconds", "seconds per epoch", "peak, MiB", "RMSE"], rows)


def _stages(name: str, *omitted: str) -> str:
    rows = []
    for stage in (stage for stage in record(name)["stages"]["measured"] if stage["name"] not in omitted):
        floor, seconds = stage["floor"], stage["seconds"]
        rows.append(
            [
                stage["name"],
                f"{seconds:.3g}",
                *(["", ""] if floor is None else [f"{floor:.3g}", f"{seconds / floor:.1f}"]),
            ]
        )
    return markdown(["stage", "seconds", "floor", "ratio"], rows)


def _growth(name: str) -> str:
    rows = [
        [
            str(row["n"]),
            f"{row['seconds']:.3g}",
            f"{1000 * row['seconds'] / row['n']:.2g}",
            f"{row['peak_mib']:.0f}",
            f"{row['rmse']:.3f}",
        ]
        for row in record(name)["rows"]
    ]
    return markdown(["n", "seconds", "ms per label", "peak, MiB", "RMSE"], rows)


def _seeds() -> dict[str, Any]:
    """Ratios of seconds of the GPyTorch mixture to lobal's, and errors, over 16 seeds."""
    runs = record("bench_cpu_seeds")["runs"]
    by_method = [{row["method"]: row for row in run["rows"]} for run in runs]
    ratios = [ratio for run in runs for ratio in run["ratios"]]
    return {
        "equal_epochs": mean_and_error([ratio["equal_epochs"] for ratio in ratios]),
        "to_the_end": mean_and_error([ratio["to_the_end"] for ratio in ratios]),
        "to_best": mean_and_error([ratio["to_best"] for ratio in ratios]),
        **{f"{name}_rmse": mean_and_error([run[name]["rmse"] for run in by_method]) for name in by_method[0]},
    }


def _large_pool() -> dict[str, float]:
    content = record("large_pool")
    steps = {step["step"]: step for part in ("campaign", "resumption") for step in content[part]}
    return {
        "peak_mib": max(step["peak_mib"] for step in steps.values()),
        "begin": steps["ActiveLearner"]["cpu_seconds"],
        "ask": steps["ask 1"]["cpu_seconds"],
        "load": steps["load"]["cpu_seconds"],
    }


CURVE = ("doppler_curve_active", "doppler_curve_random", (1024, 2048, 4096, 8192, 16384, 32768))
DERIVED: dict[str, Callable[[], Any]] = {
    "rho": partial(_rho, *CURVE[:2]),
    "rho_constant_penalty": _constant_penalty,
    **DERIVED_SAMPLE_SIZES,
    "malonaldehyde_pool": partial(_malonaldehyde, "pool"),
    "estimated_dimension": _estimated_dimension,
    "slope": _slope,
    "shrunk": _shrunk,
    "gpytorch_seeds": _seeds,
    "large_pool_steps": _large_pool,
    **REPRODUCTION_DERIVED,
    **GATE_DERIVED,
    **GROWTH_DERIVED,
}


def _inducing_density() -> str:
    """Exponents reached where 5 is asked for, and costs in units of a fit."""
    rows = [
        [f"{entry['n']}", f'`"{method}"`']
        + [
            f"{entry[f'{method}_exponent_{d}']['mean']:.2f} ({entry[f'{method}_share_{d}']['mean']:.3f})"
            for d in COLUMNS
        ]
        for entry in record("inducing_density")["summary"]
        for method in METHODS
    ]
    return markdown(["n", "method", *(f"d = {d}" for d in COLUMNS)], rows)


def _inducing_errors() -> str:
    """Errors with the default inducing points divided by those with k-means."""
    (entry,) = record("inducing_several_columns")["summary"]
    columns = {name: entry[f"ratio_{name}"] for name in DATA_SETS} | {"all": entry["ratio"]}
    return markdown(["data", "ratio of errors"], [[name, mean(ratio, ".3f")] for name, ratio in columns.items()])


def _local_polynomials() -> str:
    """Errors of local polynomials and the mixture, and what active labels save."""
    content = record("local_polynomials")
    names = {"mixture": "mixture", "lps1": "`Q = 1`", "lps3": "`Q = 3`"}
    header = [" ".join(names.get(word, word) for word in column.split()) for column in LOCAL_HEADER]
    return markdown(header, local_rows(content, [256, 512, 1024, 2048]))


def _faults() -> str:
    """How often each fault was tried."""
    return markdown(["fault", "tried"], [[name, f"{n:,}"] for name, n in record("faults")["tried"].items()])


TABLES: dict[str, Callable[[], str]] = {
    "faults": _faults,
    **PEERS,
    **CALIBRATION,
    **REPRODUCTION,
    **SIMULATOR,
    **MESH,
    **SAMPLE_SIZES,
    **GATE_TABLES,
    **GROWTH,
    "local polynomials": _local_polynomials,
    "inducing density": _inducing_density,
    "inducing errors": _inducing_errors,
    "doppler": partial(_doppler, *CURVE),
    "doppler to 32768": partial(_doppler_full, *CURVE, "doppler_curve_random_512"),
    "doppler 16 seeds": partial(_doppler_full, "doppler_active_arm", "doppler_random_arm", (1024, 2048, 4096)),
    "pools": _pools,
    "inducing points": _inducing,
    "tuning": _tuning,
    "noise": _noise,
    "regression": _regression,
    "other models": _other_models,
    "malonaldehyde errors": partial(_malonaldehyde_errors, "malonaldehyde.pool"),
    "malonaldehyde rho": partial(_malonaldehyde_rho, "malonaldehyde.summary", "pool"),
    "malonaldehyde rho uniform": partial(_malonaldehyde_rho, "malonaldehyde.summary", "uniform"),
    "rmd17 errors": partial(_malonaldehyde_errors, "malonaldehyde_rmd17.pool"),
    "rmd17 rho": partial(_malonaldehyde_rho, "malonaldehyde_rmd17.summary", "pool"),
    "sgdml": _sgdml,
    "methods cpu": partial(_methods, "bench_cpu", "analytic", "adam", "svgp"),
    "methods h200": partial(_methods, "bench_h200", "analytic"),
    "stages cpu": partial(_stages, "bench_cpu"),
    "stages h200": partial(_stages, "bench_h200", "epoch of Adam"),
    "growth cpu": partial(_growth, "bench_cpu_growth"),
}
