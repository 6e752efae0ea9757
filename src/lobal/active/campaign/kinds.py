"""The kinds of candidates and surrogates that a campaign's header may name, and headers of earlier formats.

Nothing else that a file names is ever imported. Molecules stand in a higher room and are imported when a campaign of
theirs is opened.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

CANDIDATES = {
    "array": "lobal.active.candidates:ArrayCandidates",
    "molecules": "lobal.molecules.space:MolecularCandidates",
}
SURROGATES = {
    "mixture": "lobal.active.mixture_surrogate:MixtureSurrogate",
    "force_field": "lobal.molecules.surrogate:ForceFieldSurrogate",
}
# Campaigns of format 1 that name their kind: a function of header, events and folder that returns both as format 2.
EARLIER = {"force field campaign": "lobal.molecules.earlier_campaigns:upgraded"}

CURRENT_FORMAT = 2  # of the folder as a whole; a step's file has its own


def resolved(table: Mapping[str, str], kind: object) -> Any:  # noqa: ANN401 - a class or a function
    """What the table names under this kind, imported."""
    if not isinstance(kind, str) or kind not in table:
        raise ValueError(
            f"the campaign's header must name one of {sorted(table)}, got {kind!r}; restore it from a copy"
        )
    module, _, name = table[kind].partition(":")
    return getattr(import_module(module), name)


def upgraded(
    header: Mapping[str, Any], events: list[dict[str, Any]], folder: Path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and events of any format as those of the current one."""
    if header["format"] >= CURRENT_FORMAT:
        return dict(header), events
    if "kind" in header:
        earlier: tuple[dict[str, Any], list[dict[str, Any]]] = resolved(EARLIER, header["kind"])(header, events, folder)
        return earlier
    settings = {"functions": [], "shrink_inducing": False, **header["settings"]}
    rest = {name: settings.pop(name) for name in ("functions", "shrink_inducing")}
    return {
        "format": CURRENT_FORMAT,
        "candidates": {"kind": "array", "memory_mapped": header["memory_mapped"]},
        "surrogate": {"kind": "mixture", "options": settings.pop("model"), **rest},
        "settings": settings,
    }, events
