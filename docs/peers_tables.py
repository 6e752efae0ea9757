"""Tables of the comparison with other ways to choose labels."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from docs.records import RESULTS, markdown, mean, record
from experiments.malonaldehyde_spread import ARMS
from experiments.peers.calibration import cases, parts
from experiments.peers.campaigns import HALVES, finished
from experiments.peers.report import HEADER, table


def _peers(half: str) -> str:
    return markdown(HEADER, table(finished(RESULTS / "peers.jsonl"), half))


def _peers_calibration() -> str:
    """How often measured savings lie within the stated errors of the expected ones."""
    rows = [
        [half, name, str(len(each)), *(f"{np.mean([case.is_covered(k) for case in each]):.0%}" for k in (1.0, 2.0))]
        for half in HALVES
        for name, each in parts(cases(finished(RESULTS / "peers.jsonl"), half)).items()
    ]
    return markdown(["half", "share", "cases", "within one standard error", "within two"], rows)


def _malonaldehyde_spread(name: str) -> str:
    """Errors over those of random configurations: geometric means and standard errors over repetitions."""
    results, rows = record(name)["results"], []
    for arm in ARMS:
        for n in (1024, 2048):
            cells = []
            for error in ("force_rmse", "energy_rmse", "force_max"):
                logs = np.log([result[f"{arm}_{error}_{n}"] / result[f"random_{error}_{n}"] for result in results])
                ratio, spread = np.exp(logs.mean()), logs.std(ddof=1) / np.sqrt(len(logs))
                cells.append(f"{ratio:.3f} ± {ratio * spread:.3f}")
            rows.append([arm, str(n), *cells])
    return markdown(["configurations", "number", "forces, RMSE", "energies, RMSE", "largest force error"], rows)


def _doppler_arms(arms: dict[str, str], sizes: Sequence[int]) -> str:
    """RMSE of several arms."""
    summaries = {title: record(name)["summary"][0] for title, name in arms.items()}
    rows = [[title, *(mean(each[f"rmse_{n}"], ".3f") for n in sizes)] for title, each in summaries.items()]
    return markdown(["labels", *map(str, sizes)], rows)


PEERS: dict[str, Callable[[], str]] = {
    "peers report": partial(_peers, "report"),
    "peers decision": partial(_peers, "decision"),
    "peers calibration": _peers_calibration,
    "malonaldehyde spread": partial(_malonaldehyde_spread, "malonaldehyde.spread"),
    "malonaldehyde spread, uniform": partial(_malonaldehyde_spread, "malonaldehyde.spread_uniform"),
    "doppler spread": partial(
        _doppler_arms,
        {"spread, the default": "doppler_spread", 'independent draws, `draw="random"`': "doppler_draws"},
        (256, 512, 1024, 2048, 4096),
    ),
}
