"""Labelled configurations for the page's view of the molecule, all turned alike, and the view itself.

The view is our own script, `molecule_viewer.js`, which stands in the page; what it shows is data beside it.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.molecules.geometry.bonds import Bonds
from lobal.molecules.geometry.descriptor import Positions
from lobal.molecules.geometry.elements import atom_names, covalent_radii_of, symbol_of
from lobal.report.blocks import text_block
from lobal.report.grown_campaign import GrownCampaign

MOST_SHOWN, MOST_COMPLEX = 60, 20  # configurations in the order of the labels, and complex ones
DIGITS = 3  # of positions in Angstrom
IN_ORDER, COMPLEX = "from the first label to the last", "the most complex ones"
# The colours of Corey, Pauling and Koltun's models, as most programs have them.
COLOURS = {
    "H": "#f4f4f4",
    "C": "#5a5a5a",
    "N": "#3355dd",
    "O": "#dd2211",
    "F": "#66bb33",
    "Cl": "#33aa22",
    "Br": "#992200",
    "I": "#6600bb",
    "P": "#ff9900",
    "S": "#ddbb00",
    "B": "#ffaa77",
    "Si": "#ddbb99",
    "Ti": "#999999",
    "Fe": "#dd7700",
    **dict.fromkeys(("He", "Ne", "Ar", "Kr", "Xe"), "#22cccc"),
    **dict.fromkeys(("Li", "Na", "K", "Rb", "Cs"), "#7744ee"),
    **dict.fromkeys(("Be", "Mg", "Ca", "Sr", "Ba"), "#117711"),
}
OTHERS = "#dd77ff"
# Radii of balls, in Angstrom: so small that sticks are seen, a little larger for larger atoms.
SMALLEST, BY_RADIUS = 0.16, 0.26

STYLE = """
.viewer { max-width: 46rem; }
.viewer canvas { display: block; width: 100%; height: min(24rem, 55vh); border: 1px solid var(--line);
                 border-radius: .4rem; background: var(--lead); cursor: grab; touch-action: none; }
.viewer canvas:active { cursor: grabbing; }
.viewer :focus-visible { outline: 3px solid #0072b2; outline-offset: 2px; }
.viewer .controls { display: flex; flex-wrap: wrap; gap: .5rem .8rem; align-items: center; margin: .6rem 0; }
.viewer button, .viewer select { font: inherit; font-size: .9rem; min-height: 2.2rem; min-width: 2.4rem; }
.viewer input[type=range] { flex: 1 1 70%; min-width: 8rem; min-height: 2.2rem; }
.viewer .elements span { display: inline-block; white-space: nowrap; margin-right: .9rem; }
.viewer .elements i { display: inline-block; width: .8em; height: .8em; border-radius: 50%; border: 1px solid #777;
                      margin-right: .35em; vertical-align: -.08em; }
"""

FORM = """<div class="viewer">
<canvas tabindex="0" role="application" aria-label="{label}"></canvas>
<div class="controls">
<button type="button" data-do="play">Play</button>
<input type="range" min="0" max="{last}" value="0" step="1" aria-label="Configuration">
<select aria-label="Which configurations">{orders}</select>
<button type="button" data-do="larger" aria-label="Larger">+</button>
<button type="button" data-do="smaller" aria-label="Smaller">−</button>
<button type="button" data-do="reset">Reset view</button>
<label><input type="checkbox" data-do="names" checked> names</label>
</div>
<p data-caption></p>
<p class="elements">{elements}</p>
<script type="application/json">{data}</script>
<noscript><p>The molecule cannot be shown: scripts are turned off.</p></noscript>
</div>
<script>
{script}</script>"""  # noqa: RUF001 - a minus sign
HINT = (
    "Drag to turn the molecule, or use the arrow keys; + and - for its size, 0 for the first view. All configurations "
    "are laid upon the same one, so that only the shape changes. Atoms are numbered as in the file, from 0."
)


def viewer_block(campaign: GrownCampaign) -> str:
    """The view of the labelled configurations, with everything that it needs."""
    data = viewer_data(campaign)
    content = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    orders = "".join(f'<option value="{escape(name)}">{escape(name)}</option>' for name in data["orders"])
    form = FORM.format(
        label=escape(f"{campaign.formula}, balls and sticks; arrow keys turn it"),
        last=len(data["orders"][IN_ORDER]) - 1,
        orders=orders,
        elements="".join(_legend(symbol, data["colours"][symbol]) for symbol in sorted({*data["symbols"]})),
        data=content,
        script=files("lobal.report").joinpath("molecule_viewer.js").read_text(encoding="utf-8"),
    )
    return f"{form}\n{text_block(HINT)}"


def _legend(symbol: str, colour: str) -> str:
    return f'<span><i style="background:{colour}"></i>{escape(symbol)}</span>'


def viewer_data(campaign: GrownCampaign) -> dict[str, Any]:
    """What the view shows, as JSON holds it: atoms, bonds, configurations, and in which order these are shown."""
    symbols = [symbol_of(z) for z in campaign.species.tolist()]
    orders = shown_labels(len(campaign.R), campaign.complexity)
    shown = sorted({label for order in orders.values() for label in order})
    place = {label: number for number, label in enumerate(shown)}
    R = turned_alike(campaign.R[shown], campaign.reference)
    return {
        "symbols": symbols,
        "names": atom_names(campaign.species),
        "radii": [round(SMALLEST + BY_RADIUS * r, DIGITS) for r in covalent_radii_of(campaign.species).tolist()],
        "colours": {symbol: COLOURS.get(symbol, OTHERS) for symbol in symbols},
        "bonds": Bonds.of(campaign.reference, campaign.species).pairs.tolist(),
        "total": len(campaign.R),
        "orders": {name: [place[label] for label in order] for name, order in orders.items()},
        "frames": [_frame(campaign, label, at) for label, at in zip(shown, R, strict=True)],
    }


def _frame(campaign: GrownCampaign, label: int, R: Float[Tensor, "N 3"]) -> dict[str, Any]:
    """One configuration; its energy is above the least one of all labels."""
    return {
        "label": label + 1,
        "round": int(campaign.round_of[label]) if campaign.rounds else None,
        "energy": round(1e3 * float(campaign.energies[label] - campaign.energies.min())),  # meV
        "complexity": float(f"{campaign.complexity[label]:.2g}"),
        "R": [[round(x, DIGITS) for x in atom] for atom in R.tolist()],
    }


def shown_labels(n: int, complexity: Float[ndarray, " n"]) -> Mapping[str, Sequence[int]]:
    """Labels by the name of their order: some of all, evenly, and those of the greatest complexity, greatest first."""
    return {
        IN_ORDER: np.unique(np.linspace(0, n - 1, min(n, MOST_SHOWN)).round().astype(int)).tolist(),
        COMPLEX: np.argsort(-complexity, kind="stable")[:MOST_COMPLEX].tolist(),
    }


def turned_alike(R: Positions, reference: Float[Tensor, "N 3"]) -> Positions:
    """Configurations moved and turned to lie upon the reference, which lies flat; none is mirrored."""
    flat = _flat(reference)
    centred = R - R.mean(1, keepdim=True)
    return torch.stack([each @ _turn(each, flat) for each in centred])


def _flat(R: Float[Tensor, "N 3"]) -> Float[Tensor, "N 3"]:
    """A configuration that is longest along x and thinnest along z."""
    centred = R - R.mean(0)
    axes = torch.linalg.svd(centred, full_matrices=True).Vh.mT
    axes[:, 2] *= torch.linalg.det(axes).sign()
    flat: Tensor = centred @ axes
    return flat


def _turn(R: Float[Tensor, "N 3"], onto: Float[Tensor, "N 3"]) -> Float[Tensor, "3 3"]:
    """The rotation that brings atoms nearest to others, by Kabsch's method."""
    left, _, right = torch.linalg.svd(R.mT @ onto)
    signs = torch.ones(3, dtype=R.dtype)
    signs[2] = torch.linalg.det(left @ right).sign()
    turn: Tensor = (left * signs) @ right
    return turn
