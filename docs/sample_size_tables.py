"""Tables of the relative sample size of the Doppler experiment."""

from collections.abc import Callable
from typing import Any, NamedTuple

from docs.records import RESULTS, markdown, mean, record
from experiments.doppler_curves import Arm
from experiments.repetitions import values_by_seed
from experiments.sample_size_estimators import READINGS, Errors, at_largest, estimates, jackknifed, paired_errors
from lobal.report.savings import Estimate


class Pair(NamedTuple):
    """Errors of an active and a random arm, (seeds, sizes)."""

    active: Errors
    random: Errors
    sizes: list[int]

    def up_to(self, size: int) -> "Pair":
        """The same without larger sizes."""
        kept = self.sizes.index(size) + 1
        return Pair(self.active[:, :kept], self.random[:, :kept], self.sizes[:kept])


def _arms(active: str, random: str) -> Pair:
    return Pair(*paired_errors(*(Arm.read(RESULTS / f"{name}.json") for name in (active, random))))


def _constant_penalty() -> Pair:
    results, sizes = record("doppler_constant_penalty")["results"], [1024, 2048, 4096]
    active, random = (values_by_seed(results, f"{arm}_rmse", sizes) for arm in ("active", "random"))
    return Pair(active, random, sizes)


# Column by column: what was measured with which model and scheme.
PAIRS: dict[str, Callable[[], Pair]] = {
    "lobal's engine": lambda: _arms("doppler_curve_active", "doppler_curve_random"),
    "the same, m = 512 in both arms": lambda: _arms("doppler_curve_active", "doppler_curve_random_512"),
    "Adam, exploration 0.1": _constant_penalty,
    "Algorithm 1, the paper's preset": lambda: _arms("doppler_paper", "doppler_paper_random"),
}


def _written(estimate: Estimate) -> str:
    return "" if estimate.value != estimate.value else mean(estimate._asdict(), ".2f")  # NaN: there are no such sizes


def _by_size() -> str:
    """rho at every size."""
    pairs = [pair() for pair in PAIRS.values()]
    sizes = sorted({size for pair in pairs for size in pair.sizes})
    rows = [
        [str(n), *(_written(jackknifed(at_largest, *pair.up_to(n))) if n in pair.sizes else "" for pair in pairs)]
        for n in sizes
    ]
    return markdown(["labels", *PAIRS], [*rows, ["pairs of seeds", *(str(len(pair.active)) for pair in pairs)]])


def _by_estimator() -> str:
    """rho by every estimator."""
    found = [estimates(*pair()) for pair in PAIRS.values()]
    rows = [[reading.words, *(_written(each[name]) for each in found)] for name, reading in READINGS.items()]
    return markdown(["rho is read off at", *PAIRS], rows)


def _derived() -> dict[str, Any]:
    """The same for sentences, by column, counted from zero, and estimator."""
    return {
        str(place): {name: estimate._asdict() for name, estimate in estimates(*pair()).items()}
        for place, pair in enumerate(PAIRS.values())
    }


def _algorithm_1() -> str:
    """RMSE of the paper's preset and of lobal's engine at every size, both arms."""
    arms = {
        "Algorithm 1, active": "doppler_paper",
        "Algorithm 1, random": "doppler_paper_random",
        "lobal's engine, active": "doppler_curve_active",
        "lobal's engine, random": "doppler_curve_random",
    }
    found = {title: record(name)["summary"][0] for title, name in arms.items()}
    sizes = Arm.read(RESULTS / "doppler_paper.json").sizes
    rows = [[str(n), *(mean(each[f"rmse_{n}"], ".3f") for each in found.values())] for n in sizes]
    return markdown(["labels", *found], [*rows, ["seeds", *(str(each["repetitions"]) for each in found.values())]])


SAMPLE_SIZES = {"rho by size": _by_size, "rho by estimator": _by_estimator, "algorithm 1": _algorithm_1}
DERIVED_SAMPLE_SIZES: dict[str, Callable[[], Any]] = {"rho_estimates": _derived}
