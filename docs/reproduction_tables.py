"""The tables of docs/reproduction.md."""

from collections.abc import Callable, Sequence
from typing import Any

from docs.records import markdown, mean, record
from experiments.deep_gp import ARMS as DEEP_ARMS
from experiments.figures.errors import by_size, measured_curve, sample_sizes
from experiments.other_models import savings
from experiments.repetitions import Result, mean_and_error

NOISE_ARMS = ("random", "blind", "aware")
SAMPLING_ARMS = ("equidistant", "mogpu", "superior")


def _errors(rows: Sequence[Result], name: str, digits: int) -> list[str]:
    """Pooled or mean errors at every size, with standard errors."""
    curve = measured_curve(rows, name)
    return [f"{value:.{digits}f} ± {error:.{digits}f}" for value, error in zip(*curve[1:], strict=True)]


def _columns(columns: dict[str, Sequence[str]]) -> str:
    return markdown([*columns], zip(*columns.values(), strict=True))


def _sizes(rows: Sequence[Result]) -> list[int]:
    return sorted({row["n"] for row in rows})


def _equidistant() -> str:
    content = record("equidistant")
    rows = content["results"]
    return _columns(
        {
            "labels": [str(n) for n in _sizes(rows)],
            "random": _errors(rows, "random_rmse", 3),
            "equidistant": _errors(rows, "equidistant_rmse", 3),
            "rho": [mean(content["relative_sample_sizes"][str(n)], ".2f") for n in _sizes(rows)],
            "largest error, random": _errors(rows, "random_max_error", 2),
            "largest error, equidistant": _errors(rows, "equidistant_max_error", 2),
        }
    )


def noise_rows() -> list[Result]:
    """The errors of all arms with noise that varies, one entry for every size and seed."""
    joined: dict[tuple[int, int], Result] = {}
    for arm in NOISE_ARMS:
        for row in by_size(record(f"heteroscedastic_{arm}")["results"]):
            key = {"n": row["n"], "seed": row["seed"]}
            joined.setdefault((row["n"], row["seed"]), key)[f"{arm}_rmse"] = row["rmse"]
    return [joined[key] for key in sorted(joined) if all(f"{arm}_rmse" in joined[key] for arm in NOISE_ARMS)]


def _heteroscedastic() -> str:
    rows = noise_rows()
    rho = {arm: sample_sizes(rows, "aware", arm) for arm in ("blind", "random")}
    return _columns(
        {
            "labels": [str(n) for n in _sizes(rows)],
            "random": _errors(rows, "random_rmse", 3),
            "noise taken as constant": _errors(rows, "blind_rmse", 3),
            "noise known": _errors(rows, "aware_rmse", 3),
            "rho, known / constant": [mean(rho["blind"][str(n)], ".2f") for n in _sizes(rows)],
            "rho, known / random": [mean(rho["random"][str(n)], ".2f") for n in _sizes(rows)],
        }
    )


def _mogpu() -> str:
    content = record("mogpu")
    rows = by_size(content["results"])
    rho = content["relative_sample_sizes"]["mogpu"]
    columns = {"labels": [str(n) for n in _sizes(rows)]}
    columns |= {f"RMSE, {arm}": _errors(rows, f"{arm}_rmse", 3) for arm in SAMPLING_ARMS}
    columns["rho, superior / MoGPU"] = [mean(rho[str(n)], ".2f") for n in _sizes(rows)]
    columns |= {f"largest error, {arm}": _errors(rows, f"{arm}_max_error", 2) for arm in SAMPLING_ARMS}
    return _columns({name.replace("mogpu", "MoGPU"): column for name, column in columns.items()})


def deep_gp() -> str:
    """Errors of a deep Gaussian process by kind of labels, and ratios of them."""
    content = record("deep_gp")
    rows = by_size(content["results"])
    found = content["ratios"]["rmse"]
    columns = {"labels": [str(n) for n in _sizes(rows)]}
    columns |= {f"RMSE, {title}": _errors(rows, f"{arm}_rmse", 3) for arm, title in DEEP_ARMS.items()}
    for pair, title in (("superior/random", "superior / random"), ("alc/superior", "ALC / superior")):
        columns[f"RMSE, {title}"] = [mean(found[pair][str(n)], ".2f") for n in _sizes(rows)]
    columns |= {f"largest error, {title}": _errors(rows, f"{arm}_max_error", 2) for arm, title in DEEP_ARMS.items()}
    return _columns({name.replace(" sampling", ""): column for name, column in columns.items()})


def deep_gp_ratios() -> dict[str, Any]:
    """Ratios of errors of a deep Gaussian process, by pair of arms such as "superior_random" and by size."""
    return {pair.replace("/", "_"): by_n for pair, by_n in record("deep_gp")["ratios"]["rmse"].items()}


def _no_penalty() -> str:
    (numbers,) = record("no_penalty")["summary"]
    sizes = sorted(int(name.rpartition("_")[2]) for name in numbers if name.startswith("with_rmse_"))
    rows = [
        [
            theta,
            *(mean(numbers[f"{arm}_rmse_{size}"], ".3f") for size in sizes),
            mean(numbers[f"{arm}_least_flat_bandwidth"], ".3f"),
            mean(numbers[f"{arm}_flat_share"], ".2f"),
        ]
        for arm, theta in (("without", "0"), ("with", "0.5"))
    ]
    errors = [f"RMSE at {size}" for size in sizes]
    return markdown(["theta", *errors, "least LOB above x = 0.5", "share of labels there"], rows)


def _ratios() -> dict[str, Any]:
    """Ratios of largest errors of superior sampling to MoGPU's by size, paired by seed."""
    rows = by_size(record("mogpu")["results"])
    return {
        str(n): mean_and_error([row["superior_max_error"] / row["mogpu_max_error"] for row in rows if row["n"] == n])
        for n in _sizes(rows)
    }


def _noise_rho() -> dict[str, Any]:
    rows = noise_rows()
    return {arm: sample_sizes(rows, "aware", arm) for arm in ("blind", "random")}


def _inducing_rmse() -> dict[str, Any]:
    """Errors with inducing points that follow the LFC, by labels and number."""
    results = record("inducing_points")["results"]
    return {
        arm: {
            "lfc": {
                str(m): mean_and_error([result[f"fitted_{arm}_lfc_rmse_{m}"] for result in results])
                for m in (128, 1024)
            }
        }
        for arm in ("active", "random")
    }


def _other_models() -> dict[str, Any]:
    results = record("other_models")["results"]
    return {name: savings(results, name, "active").overall._asdict() for name in ("forest", "network")}


REPRODUCTION: dict[str, Callable[[], str]] = {
    "equidistant": _equidistant,
    "heteroscedastic": _heteroscedastic,
    "mogpu": _mogpu,
    "no penalty": _no_penalty,
    "deep gp": deep_gp,
}
REPRODUCTION_DERIVED: dict[str, Callable[[], Any]] = {
    "deep_gp_ratios": deep_gp_ratios,
    "mogpu_largest": _ratios,
    "noise_rho": _noise_rho,
    "inducing_rmse": _inducing_rmse,
    "other_models_rho": _other_models,
}
