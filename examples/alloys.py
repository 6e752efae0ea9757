"""A laboratory to try lobal with: 3,000 alloys in a table as German Excel writes it, and a furnace that measures them.

python examples/alloys.py table alloys.csv              # all alloys, with semicolons and decimal commas
python examples/alloys.py measure next.csv results.csv  # the hardness of those that are asked for
"""

import csv
import math
import sys
from pathlib import Path

import numpy as np

ELEMENTS = {"Chrom %": (0.0, 25.0), "Nickel %": (0.0, 15.0), "Molybdän %": (0.0, 4.0)}
TEMPERATURE, MAKER, SAMPLE, TARGET = "Glühtemperatur °C", "Hersteller", "Probe", "Härte HV"
N, NOISE = 3000, 3.0  # alloys, and the standard deviation of a measurement
CRACKED = "gerissen"  # what the laboratory writes where a sample broke


def alloys(n: int = N, seed: int = 0) -> dict[str, np.ndarray]:
    """The columns of the table: an identifier, the composition, the temperature and a text."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.uniform(lower, upper, n).round(2) for name, (lower, upper) in ELEMENTS.items()}
    temperatures = rng.uniform(600.0, 1150.0, n).round(1)
    samples = np.array([f"L{number:04d}" for number in range(1, n + 1)])
    makers = rng.choice(["Nord", "Süd"], n)
    return {SAMPLE: samples, **columns, TEMPERATURE: temperatures, MAKER: makers}


def hardness(chromium: float, nickel: float, molybdenum: float, temperature: float) -> float:
    """Slowly varying, with a steep fall at a temperature that depends on the composition."""
    dissolves = 860.0 + 9.0 * nickel - 4.0 * chromium
    precipitates = (40.0 + 6.0 * chromium + 25.0 * molybdenum) / (1.0 + math.exp((temperature - dissolves) / 8.0))
    return 160.0 + 3.0 * chromium + 2.0 * nickel + precipitates - 0.05 * (temperature - 600.0)


def measured(sample: str, row: dict[str, float]) -> float | None:
    """The measurement of a sample, always the same; none if it cracks."""
    rng = np.random.default_rng([7, *sample.encode()])
    if rng.random() < 0.03:
        return None
    return hardness(*(row[name] for name in (*ELEMENTS, TEMPERATURE))) + NOISE * rng.standard_normal()


def german(value: object) -> str:
    """A cell as German Excel writes it."""
    return str(value).replace(".", ",") if isinstance(value, float) else str(value)


def write(path: Path, columns: dict[str, list[object]]) -> None:
    """A table with semicolons, decimal commas and the encoding of Windows."""
    with path.open("w", encoding="cp1252", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(columns)
        writer.writerows([german(value) for value in row] for row in zip(*columns.values(), strict=True))


def measure(asked: Path, results: Path) -> None:
    """Read the samples that are asked for, and write their hardness."""
    with asked.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    found = []
    for row in rows:
        numbers = {name: float(row[name].replace(",", ".")) for name in (*ELEMENTS, TEMPERATURE)}
        value = measured(row[SAMPLE], numbers)
        found.append(CRACKED if value is None else round(value, 1))
    write(results, {SAMPLE: [row[SAMPLE] for row in rows], TARGET: found})


def main(command: str, *names: str) -> None:
    """Run one of the two commands."""
    if command == "table":
        write(Path(names[0]), {name: column.tolist() for name, column in alloys().items()})
    elif command == "measure":
        measure(Path(names[0]), Path(names[1]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:] or ["help"])
