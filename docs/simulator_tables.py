"""The tables of the simulator of the examples."""

from collections.abc import Callable

from docs.records import markdown, mean, record
from experiments.simulator import TOGETHER

LEARNED = {
    f"both_{{}}_{TOGETHER}": "both together",
    "both_{}_temperature": "temperature",
    "both_{}_pressure": "pressure",
    "alone_{}_temperature": "temperature, learned alone",
}


def _errors() -> str:
    """Geometric means of the errors of both arms, and of their ratios."""
    content = record("simulator")
    means = content["geometric_means"]
    rows = [
        [title, str(n), *(mean(means[f"{name.format(arm)}_error_{n}"], form) for arm, form in COLUMNS.items())]
        for name, title in LEARNED.items()
        for n in content["settings"]["sizes"]
    ]
    return markdown(["error of", "labels", "default learner", "random points", "ratio"], rows)


def _coverage() -> str:
    """Shares of points within intervals of 95%, mean over outputs."""
    content = record("simulator")
    sizes = content["settings"]["sizes"]
    rows = [
        [title, *(mean(content["coverage"][key], ".3f") for key in (*(f"{arm}_{n}" for n in sizes), arm))]
        for arm, title in {"active": "default learner", "random": "random points"}.items()
    ]
    return markdown(["labels", *map(str, sizes), "all"], rows)


def _told() -> str:
    """Errors with a share of the labels in the transition, over those of random labels."""
    content = record("simulator_told")
    errors, ratios = content["summary"][0], content["ratios"]
    rows = [["at random", mean(errors["random"], ".3f"), "1"]]
    rows += [
        [f"{share:.0%}", mean(errors[f"share_{share:g}"], ".3f"), mean(ratios[f"share_{share:g}"], ".2f")]
        for share in content["settings"]["shares"]
    ]
    return markdown(["labels in the transition", "error of the temperature", "over random labels"], rows)


COLUMNS = {"active": ".2g", "random": ".2g", "ratio": ".2f"}
SIMULATOR: dict[str, Callable[[], str]] = {
    "simulator errors": _errors,
    "simulator coverage": _coverage,
    "simulator told": _told,
}
