"""The tables of docs/mesh.md."""

from collections.abc import Callable, Sequence
from typing import Any

from docs.records import markdown, mean, record

FIELD = {  # of the field itself, without labels
    "gradient_1": "gradient, side^1",
    "gradient_1.5": "gradient, side^1.5",
    "gradient_2": "gradient, side^2",
    "gradient_2.5": "gradient, side^2.5",
    "gradient_3": "gradient, side^3",
    "curvature_2": "second derivatives, side^2",
    "curvature_3": "second derivatives, side^3",
    "curvature_4": "second derivatives, side^4",
    "best_density": "density of the derivation, of the field itself",
    "error": "the error itself",
}
LEARNED = {
    "learner_superior": "superior density, the learner's own model",
    "superior": "superior density, sqrt(LFC)",
    "bilinear": "LFC^(2/3)",
    "superior_amplitude_0.5": "superior density with amplitude",
    "bilinear_amplitude_0.5": "LFC^(2/3) with amplitude",
    "bilinear_amplitude_1": "the same, window twice as wide",
    "prediction": "second derivatives of the prediction",
    "isotropic_superior": "isotropic: superior density, sqrt(LFC)",
    "isotropic_bilinear": "isotropic: LFC^(2/3)",
    "isotropic_superior_amplitude_0.5": "isotropic: superior density with amplitude",
    "isotropic_bilinear_amplitude_0.5": "isotropic: LFC^(2/3) with amplitude",
    "isotropic_prediction": "isotropic: second derivatives of the prediction",
}
SHOWN = ("superior", "bilinear", "superior_amplitude_0.5", "isotropic_superior", "isotropic_bilinear", "prediction")
CELLS = "1024"  # at which shares of cells are shown
WITH_LABELS = ("1024", "2048", "4096")


def _labels() -> list[str]:
    return [*record("mesh")["with_labels"]]


def _relative(names: dict[str, str], labels: Sequence[str]) -> str:
    found = record("mesh")["relative_cells"]
    rows = [[title, *(mean(found[n][name]["overall"], ".2f") for n in labels)] for name, title in names.items()]
    return markdown(["cells split by", *("all cells" if n == "0" else f"{n} labels" for n in labels)], rows)


def _curved() -> str:
    entries: dict[int, Any] = {entry["n"]: entry for entry in record("mesh")["summary"]}
    column = f"{{}}_curved_{CELLS}"
    rows = [[LEARNED[name], *(mean(entries[int(n)][column.format(name)], ".2f") for n in _labels())] for name in SHOWN]
    return markdown(["cells split by", *(f"{n} labels" for n in _labels())], rows)


def _with_labels() -> str:
    found = record("mesh")["with_labels"]
    rows = [
        [LEARNED[name], n, *(mean(found[n][name][cells], ".2f") for cells in WITH_LABELS)]
        for name in SHOWN
        for n in _labels()
    ]
    return markdown(["cells split by", "labels", *(f"{cells} cells" for cells in WITH_LABELS)], rows)


MESH: dict[str, Callable[[], str]] = {
    "mesh without labels": lambda: _relative(FIELD, ["0"]),
    "mesh": lambda: _relative(LEARNED, _labels()),
    "mesh curved": _curved,
    "mesh with labels": _with_labels,
}
