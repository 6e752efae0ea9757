"""The tables of the two gates of force fields, in docs/molecules.md and docs/reproduction.md."""

from collections.abc import Callable
from typing import Any

from docs.records import markdown, mean, record
from experiments.malonaldehyde_gate import GATES, SINGLE, TITLES
from experiments.repetitions import mean_and_error, values_by_seed
from lobal.report.savings import pooled_errors

RECORD = "malonaldehyde.gate"
NAMES = {SINGLE: "anisotropic expert", **TITLES}


def _sizes() -> list[int]:
    return list(record(RECORD)["settings"]["sizes"])


def _errors() -> str:
    """Pooled errors in thousandths at all sizes, and how many experts share a prediction."""
    results, sizes = record(RECORD)["results"], _sizes()

    def shown(model: str, measure: str) -> str:
        errors = pooled_errors(values_by_seed(results, f"{model}_{measure}", sizes))[0]
        return ", ".join(f"{1e3 * error:.3g}" for error in errors)

    def experts(model: str) -> str:
        if model == SINGLE:
            return "1"
        return ", ".join(f"{n:.1f}" for n in values_by_seed(results, f"{model}_experts", sizes).mean(0))

    models = [SINGLE, *(gate for gate in GATES if gate in record(RECORD)["settings"]["gates"])]
    header = [f"at {', '.join(map(str, sizes))} configurations", "forces, meV/Å", "energies, meV", "experts at a point"]
    rows = [[NAMES[model], shown(model, "force_rmse"), shown(model, "energy_rmse"), experts(model)] for model in models]
    return markdown(header, rows)


def _rho() -> str:
    """rho of every mixture against the single expert, and of the paper's gate against lobal's."""
    steps = record(RECORD)["relative_sample_sizes"]

    def shown(step: dict[str, Any]) -> str:
        error = "" if step["standard_error"] is None else f" ± {step['standard_error']:.3f}"
        return f"{step['rho']:.3f}{error} ({step['rho_at_slope']:.2f})"

    pairs = zip(steps["force_rmse"], steps["energy_rmse"], strict=True)
    rows = [
        [f"{NAMES[force['model']]} / {NAMES[force['reference']]}", shown(force), shown(energy)]
        for force, energy in pairs
    ]
    return markdown(["models", "forces", "energies"], rows)


def _transition() -> str:
    """Ratios of the complexity at the transition by that at the states, and what the gates know of both."""
    content, sizes = record(RECORD), _sizes()
    rows = []
    for gate, ratios in content["transition"].items():
        known = [
            f"{values_by_seed(content['results'], f'{gate}_explained_{at}', sizes[-1:]).mean():.2f}"
            for at in ("top", "states")
        ]
        rows.append([NAMES[gate], *(mean(ratios[str(n)], ".2f") for n in sizes), " / ".join(known)])
    return markdown(["gate", *map(str, sizes), "known of the gate there"], rows)


def _largest() -> dict[str, Any]:
    """At the largest size: ratios at the transition by gate, and rho of the mixtures by the RMSE of forces."""
    content, size = record(RECORD), _sizes()[-1]
    steps = content["relative_sample_sizes"]["force_rmse"]
    moved = mean_and_error([abs(result[f"softmax_log_scale_moved_{size}"]) for result in content["results"]])
    return {
        "n": size,
        "repetitions": len(content["results"]),
        "gate_labels": content["settings"]["gate_labels"],
        "ratio": {gate: ratios[str(size)] for gate, ratios in content["transition"].items()},
        "rho": {
            f"{step['model']}_{step['reference']}": {name: step[name] for name in ("rho", "standard_error")}
            for step in steps
        },
        "log_scale_moved": moved["mean"],
    }


GATE_TABLES: dict[str, Callable[[], str]] = {
    "malonaldehyde gates": _errors,
    "malonaldehyde gates rho": _rho,
    "malonaldehyde gates transition": _transition,
}
GATE_DERIVED: dict[str, Callable[[], Any]] = {"malonaldehyde_gate": _largest}
