"""What local bandwidths are measured by: a gate that is fitted to predictions of labels from their neighbours alone.

The experts of the mixture are conditioned on all labels, and predict badly around a region that is too rapid for their
bandwidth. Their gate therefore selects small bandwidths in smooth surroundings, which is right for predictions, but
says little about the function there. Predictions from a few neighbours do not have this defect.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from lobal.core.arrays import Bandwidths
from lobal.core.comparison import is_better
from lobal.core.dataset import LabelledSet
from lobal.experts.interface import Hyperparameters
from lobal.experts.leave_one_out import LeaveOneOut, relative_weights
from lobal.experts.nearest import leave_one_out_from_nearest
from lobal.mixture.analytic.gate_choice import best_gate_features, cross_fitted_gate
from lobal.mixture.analytic.gate_fit import fit_ordinal_gate
from lobal.mixture.analytic.preparation import GATE_WIDTHS, analytic_settings, candidate_gates, with_training_weights
from lobal.mixture.analytic.training import utilities
from lobal.mixture.gate import OrdinalGate, gated_mean
from lobal.mixture.model import Ruler
from lobal.mixture.start import Start

MOST_MEASURED = 4096  # labels that are predicted; the gate is smooth and hardly changes with more
# Where noise is strong, a prediction is the mean of many labels, and neighbours that are hardly more cannot tell large
# bandwidths apart. A prediction may average a quarter of the neighbours.
LARGEST_SHARE = 0.25
# A narrower gate than that of predictions: with few labels, fronts and patches are not wider than a few bandwidths.
WIDTHS = (*GATE_WIDTHS, 1.5)


def neighbourhood_ruler(
    points: LabelledSet, start: Start, hyperparameters: Hyperparameters, bandwidths: Bandwidths, *, k: int
) -> Ruler | None:
    """Local bandwidths from predictions of labels by their k nearest neighbours; None where noise asks for more.

    A single bandwidth everywhere, unless others are better at labels the gate was not fitted to.
    """
    training = analytic_settings(start.settings)
    rows = torch.randperm(len(points), generator=start.generator)[:MOST_MEASURED].to(points.y.device)
    measured = with_training_weights(points[rows], training)
    predictions = predictions_from_neighbours(points, rows, start, hyperparameters, bandwidths, k=k)
    utility, scale = utilities(predictions, measured.y, training), training.gate_scale
    gates = candidate_gates(measured, start, WIDTHS)
    features = best_gate_features(gates, measured, utility, training, start.generator, standard_errors=0.0)
    phi = features(measured.X)[0]
    gate = fit_ordinal_gate(features, phi, utility, relative_weights(measured), scale=scale)
    averaged = 1.0 / gated_mean(gate.at_features(phi), predictions.leverage).median().item()
    if averaged > LARGEST_SHARE * k:
        return None
    single = utility.mean(dim=1).argmax()
    held_out = gated_mean(cross_fitted_gate(features, measured, utility, training), utility)
    if not is_better(-held_out, -utility[single], standard_errors=0.0):
        flat = torch.zeros_like(gate.whitened_mean)
        gate = OrdinalGate(
            features=features, scale=gate.scale, n_experts=len(utility), mean=single.to(flat), whitened_mean=flat
        )
    return Ruler(gate=gate, bandwidths=bandwidths, shared_bandwidth=start.shared_bandwidth)


def predictions_from_neighbours(
    points: LabelledSet,
    rows: Int[Tensor, " m"],
    start: Start,
    hyperparameters: Hyperparameters,
    bandwidths: Bandwidths,
    *,
    k: int,
) -> LeaveOneOut:
    """Predictions of some labels from their k nearest others, with every bandwidth of the ladder."""
    return leave_one_out_from_nearest(
        points,
        rows,
        hyperparameters,
        k=k,
        bandwidths=bandwidths,
        shared_bandwidth=start.shared_bandwidth,
        kernel=start.kernel,
    )
