"""Tables of the comparison with other ways to choose labels."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np

from docs.records import RESULTS, markdown, mean, record
from experiments.malonaldehyde_spread import ARMS, RANDOM
from experiments.peers.calibration import cases, parts
from experiments.peers.campaigns import finished
from experiments.peers.report import RANGES, header, table
from experiments.repetitions import Result, mean_and_error

SPREAD_RECORDS = [f"malonaldehyde.{name}" for name in ("spread", "spread_estimated", "spread_followed")]
BY_RANDOM = {arm: (arm, RANDOM) for arm in ARMS}
PAIRED = {"estimated by spread": ("estimated", "spread"), "followed by draws": ("followed", "draws")}
DISTANCES = {
    "random": "random",
    "draws": "independent draws, constant complexity",
    "power_2": "spread, power 2",
    "power_8": "spread, power 8",
    "power_dimension": "spread, the dimension as power",
}


# The present model and design, and those of before, whose points were all spread.
PRESENT, BEFORE = "peers.jsonl", "peers_spread.jsonl"


def _peers(name: str, problems: str, ranges: Sequence[str]) -> str:
    return markdown(header(ranges), table(finished(RESULTS / name), problems, ranges))


def _peers_calibration() -> str:
    """How often measured savings lie within the stated errors of the expected ones."""
    rows = [
        [half, name, str(len(each)), *(f"{np.mean([case.is_covered(k) for case in each]):.0%}" for k in (1.0, 2.0))]
        for half, source in {"decision": BEFORE, "report": PRESENT}.items()
        for name, each in parts(cases(finished(RESULTS / source), half)).items()
    ]
    return markdown(["half", "share", "cases", "within one standard error", "within two"], rows)


def _malonaldehyde_spread(names: Sequence[str], pairs: Mapping[str, tuple[str, str]]) -> str:
    """Errors of one arm over those of another: geometric means and standard errors over repetitions."""
    results: dict[int, Result] = {}  # by seed, of all records
    for result in (result for name in names for result in record(name)["results"]):
        results[result["seed"]] = results.get(result["seed"], {}) | result
    rows = []
    for (title, arms), n in product(pairs.items(), (1024, 2048)):
        ratios = []
        for error in ("force_rmse", "energy_rmse", "force_max"):
            both = ([each.get(f"{arm}_{error}_{n}") for arm in arms] for each in results.values())
            ratios.append([one / other for one, other in both if one is not None and other is not None])
        if ratios[0]:
            rows.append([title, str(n), str(len(ratios[0])), *map(_geometric_mean, ratios)])
    header = ["configurations", "number", "repetitions", "forces, RMSE", "energies, RMSE", "largest force error"]
    return markdown(header, rows)


def _geometric_mean(ratios: Sequence[float]) -> str:
    """With its standard error."""
    logs = np.log(ratios)
    mean, error = np.exp(logs.mean()), logs.std(ddof=1) / np.sqrt(len(logs))
    return f"{mean:.3f} ± {mean * error:.3f}"


def _malonaldehyde_distances() -> str:
    """Densities at chosen configurations, and distances to them by those to random ones."""
    results, rows = record("malonaldehyde.distances")["results"], []
    for name, title in DISTANCES.items():
        densities = mean_and_error([result[f"{name}_log_density"] for result in results])
        ratios = [result[f"{name}_distance"] / result["random_distance"] for result in results]
        rows.append([title, mean(densities, ".2f"), _geometric_mean(ratios) if name != "random" else "1"])
    return markdown(["configurations", "mean log density", "distance to the nearest"], rows)


def _doppler_arms(arms: dict[str, str], sizes: Sequence[int]) -> str:
    """RMSE of several arms."""
    summaries = {title: record(name)["summary"][0] for title, name in arms.items()}
    rows = [[title, *(mean(each[f"rmse_{n}"], ".3f") for n in sizes)] for title, each in summaries.items()]
    return markdown(["labels", *map(str, sizes)], rows)


PEERS: dict[str, Callable[[], str]] = {
    "peers report": partial(_peers, PRESENT, "report", RANGES),
    "peers decision": partial(_peers, PRESENT, "decision", ["few"]),
    "peers simulators": partial(_peers, PRESENT, "simulators", ["few"]),
    "peers decision, before": partial(_peers, BEFORE, "decision", RANGES),
    "peers calibration": _peers_calibration,
    "malonaldehyde spread": partial(_malonaldehyde_spread, SPREAD_RECORDS, BY_RANDOM),
    "malonaldehyde spread, paired": partial(_malonaldehyde_spread, SPREAD_RECORDS, PAIRED),
    "malonaldehyde distances": _malonaldehyde_distances,
    "malonaldehyde spread, uniform": partial(_malonaldehyde_spread, ["malonaldehyde.spread_uniform"], BY_RANDOM),
    "doppler spread": partial(
        _doppler_arms,
        {"spread, the default": "doppler_spread", 'independent draws, `draw="random"`': "doppler_draws"},
        (256, 512, 1024, 2048, 4096),
    ),
}
