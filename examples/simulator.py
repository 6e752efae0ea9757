"""A simulator to try `lobal run` with: the cooling of a plate, from one JSON file to another.

    python examples/simulator.py space space.json
    python examples/simulator.py input.json output.json

The first writes the space of its inputs, the second computes one point.

It has what makes simulators hard: inputs over decades, an integer, a material, a corner in which it cannot run, crashes
and calls that hang. Its two outputs are complex in different places.
"""

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

CONDUCTIVITY = {"copper": 1.0, "steel": 0.35, "polymer": 0.05}  # relative to copper
SPACE: dict[str, list[Any]] = {
    "variables": [
        {"type": "real", "name": "flow", "lower": 0.01, "upper": 1000.0, "log": True, "unit": "l/h"},
        {"type": "real", "name": "power", "lower": 0.1, "upper": 100.0, "log": True, "unit": "W"},
        {"type": "real", "name": "angle", "lower": 0.0, "upper": 90.0, "unit": "deg"},
        {"type": "integer", "name": "fins", "lower": 1, "upper": 12},
        {"type": "categorical", "name": "material", "levels": list(CONDUCTIVITY)},
    ],
    "constraints": ["flow * fins <= 6000"],
}


def simulated(flow: float, power: float, angle: float, fins: int, material: str) -> dict[str, float]:
    """The temperature above that of the room, as its logarithm, and the loss of pressure, as its logarithm."""
    # Between laminar and turbulent flow the transfer of heat changes within a fraction of a decade.
    turbulent = 1.0 / (1.0 + math.exp(-(math.log10(flow) - 1.6 + 0.004 * angle) / 0.05))
    transfer = math.log(1.0 + 0.3 * flow**0.33 * math.sqrt(fins)) + 1.2 * turbulent
    conduction = CONDUCTIVITY[material] ** 0.3
    temperature = 0.8 * math.log(power) - transfer * (0.4 + conduction) - 0.2 * math.cos(math.radians(angle))
    # Vortices behind the fins: rapid in the angle where it is steep.
    vortices = math.sin(math.radians(9.0 * angle)) / (1.0 + math.exp(-(angle - 60.0) / 4.0))
    pressure = 0.9 * math.log(flow) + 0.15 * fins + 0.6 * vortices
    return {"temperature": temperature, "pressure": pressure}


def main(source: str, target: str) -> None:
    """Simulate one point, or write the space of all."""
    if source == "space":
        Path(target).write_text(json.dumps(SPACE, indent=2))
        return
    point = json.loads(Path(source).read_text())
    if point["angle"] > 88.0 and point["material"] == "polymer":
        sys.exit("the plate has molten")  # a crash
    if point["flow"] < 0.012:
        time.sleep(3600.0)  # does not converge
    values = {variable["name"]: point[variable["name"]] for variable in SPACE["variables"]}
    Path(target).write_text(json.dumps(simulated(**values)))


if __name__ == "__main__":
    main(*sys.argv[1:])
