"""The tables of force fields grown from one configuration, in docs/molecules.md."""

from collections.abc import Callable
from typing import Any

from docs.records import markdown, mean, record
from experiments.forcefield_grow import GROWN, NAIVE, RANDOM

FOLDER = "forcefield_grow"
MOLECULES = ("malonaldehyde", "ethanol", "glycine", "aspirin")
ARMS = {RANDOM: "random of the pools", NAIVE: "frames, as many calls"}


def _errors() -> str:
    """What campaigns reached, what they took, and where."""
    rows = []
    for name in MOLECULES:
        content = record(f"{FOLDER}.{name}")
        (entry,), results = content["summary"], content["results"]
        device = "one H200" if content["settings"]["device"] == "cuda" else "one core"
        groups = ", ".join(str(n) for n in sorted({each["permutations"] for each in results}))
        force, energy = (
            {key: None if part is None else 1e3 * part for key, part in entry[f"{GROWN}_{measure}_rmse"].items()}
            for measure in ("force", "energy")
        )
        rows.append(
            [
                name,
                str(entry["n"]),
                str(entry["repetitions"]),
                groups,
                mean(force, ".1f"),
                mean(energy, ".1f"),
                f"{entry['seconds']['mean'] / 60:.0f} min, {device}",
            ]
        )
    header = ["molecule", "labels", "repetitions", "permutations", "forces, meV/Å", "energies, meV", "campaign"]
    return markdown(header, rows)


def _ratios() -> str:
    """Force errors by those of force fields learned from as many labels chosen otherwise."""
    rows = []
    for name in MOLECULES:
        ratios = record(f"{FOLDER}.{name}")["ratios"]
        rows.append([name, *(mean(ratios[f"{GROWN}_by_{arm}"], ".2f") for arm in ARMS)])
    return markdown(["force error by that of", *ARMS.values()], rows)


def _gates() -> str:
    """Force errors with the gate of campaigns, and with the ordinal one."""
    rows = []
    for name in MOLECULES:
        records = [record(f"{FOLDER}.{each}") for each in (name, f"{name}_ordinal")]
        gates = [each["force_rmse_mev_per_angstrom"] for each in records]
        rows.append([name, *(mean(gate[arm], ".1f") for arm in (GROWN, RANDOM) for gate in gates)])
    header = ["forces, meV/Å", "grown", "grown, ordinal gate", "random of the pools", "random, ordinal gate"]
    return markdown(header, rows)


def _motion() -> dict[str, float]:
    """What runs with the final force fields of malonaldehyde were like."""
    content = record(f"{FOLDER}.malonaldehyde_motion")
    results = content["results"]
    return {
        "drift": max(abs(each) for result in results for each in result["drifts"]),
        "picoseconds": content["settings"]["picoseconds"],
        "walkers": sum(len(result["drifts"]) for result in results),
        "broken": sum(result["broken_after"] is not None for result in results),
    }


GROWTH_DERIVED: dict[str, Callable[[], Any]] = {"grown_motion": _motion}
LARGE = {"defaults": "lobal, defaults", "equal": "lobal, settings of sgdml", "sgdml": "sgdml"}


def _memory_and_error(measured: dict[str, Any]) -> tuple[str, str]:
    if "failed" in measured:
        return "", measured["failed"].split(": ")[-1]
    return f"{measured['peak_gib']:.1f}", f"{1e3 * measured['force_rmse']:.1f}"


def _large() -> str:
    """Seconds, memory and errors of force fields of aspirin."""
    found = sorted(
        record(f"{FOLDER}.aspirin_solver")["results"], key=lambda each: (each["n"], list(LARGE).index(each["method"]))
    )
    rows = [
        [str(each["n"]), LARGE[each["method"]], f"{each['cpu_seconds']:.0f}", *_memory_and_error(each)]
        for each in found
    ]
    return markdown(["configurations", "", "CPU seconds", "memory, GiB", "forces, RMSE, meV/Å"], rows)


GROWTH: dict[str, Callable[[], str]] = {
    "grown force fields": _errors,
    "grown force fields, ratios": _ratios,
    "grown force fields, gates": _gates,
    "large molecule": _large,
}
