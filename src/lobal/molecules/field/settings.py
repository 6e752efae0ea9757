"""Settings of a force field, for single fits and for campaigns."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, final

from lobal.core.presets import Presets, check_preset, takes_preset
from lobal.core.schema import Check, flag, list_of, optional, positive, table, text, whole
from lobal.molecules.field.anisotropy import LOSSES
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.radial import radial_kernel_named
from lobal.molecules.field.softmax_options import FIELDS as SOFTMAX_FIELDS
from lobal.molecules.field.softmax_options import SoftmaxGateOptions

# sigma_l by Sigma_E: half octaves. Sigma_E suits some hundred configurations, and more ask for less: 0.5 at 2048.
BANDWIDTHS = tuple(2.0 ** (0.5 * step) for step in range(-5, 3))
ANISOTROPIES = ("tied", "free")
# The paper's force field, Sec. 5.2.
PRESETS: Presets = {
    "paper": {
        "labels": "both",
        "kernel": "gaussian",
        "mixture": True,
        "inducing": None,  # dense experts
        "bandwidths": tuple(2.0 ** (-1.25 + 0.5 * j) for j in range(1, 9)),  # sigma_j
        "noise": 1e-9,  # for stability
        "anisotropy": "free",  # one entry of Sigma_E for every interatomic distance
        "anisotropy_loss": "mse",
        "anisotropy_size": 128,  # inducing configurations of the sparse process that Sigma_E is trained with
        "gate_inducing": 1024,
        "softmax_gate": SoftmaxGateOptions(),
    }
}
SOFTMAX_NAMES = tuple(each.name for each in fields(SoftmaxGateOptions))
ORDINAL = ("gate_widths", "gate_scales")  # options of the ordinal gate alone
GATE = ("inducing", "widths", "scales")  # entries of version 0.1.0
# Entries of files; `ForceFieldSettings` checks the rest.
_WORD, _NUMBER, _LADDER = optional(text()), whole(1), list_of(positive())
_SHARED: dict[str, Check] = {"kernel": text(), "mixture": flag, "bandwidths": _LADDER, "noise": positive()}
FIELDS = table(
    {},
    **_SHARED,
    **dict.fromkeys(("preset", "labels", "anisotropy", "device"), _WORD),
    anisotropy_loss=text(),
    inducing=optional(_NUMBER),
    **dict.fromkeys(("anisotropy_size", "anisotropy_folds", "gate_inducing"), _NUMBER),
    **dict.fromkeys(("gate_widths", "gate_scales"), _LADDER),
    shared_bandwidth=optional(_LADDER),
    softmax_gate=optional(SOFTMAX_FIELDS),
)
EARLIER_FIELDS = table(
    {
        **dict.fromkeys(("inducing", "folds"), _NUMBER),
        "labels": text(),
        "sparse": optional(_NUMBER),
        "anisotropic": flag,
        "gate": table({}, inducing=_NUMBER, widths=_LADDER, scales=_LADDER),
    },
    **_SHARED,
    device=_WORD,
)


@final
@takes_preset(PRESETS)
@dataclass(frozen=True, kw_only=True)
class ForceFieldSettings:
    """How a force field is learned.

    Args:
        preset: "paper" for ladder, anisotropy, noise and gate of the paper's experiment. Options that are given beside
            it take the place of its own.
        labels: "forces", "energies" or "both"; None for forces, or energies where there are no forces.
        kernel: "gaussian" or "matern52".
        mixture: mix experts of all bandwidths by a gate. Otherwise the one of least leave-one-out error is taken, or
            a bandwidth between them by validation.
        inducing: number of configurations that experts predict with, at most all; None for all (dense experts).
        bandwidths: sigma_l, in units of Sigma_E, increasing.
        noise: variance of the noise by that of the labels. Experts interpolate, and no smaller number is told from
            rounding.
        anisotropy: how Sigma_E is trained. "tied": pairs of atoms that symmetries map onto each other share an entry;
            "free": every pair of atoms has its own; None: Sigma_E is isotropic, a multiple of the typical distance.
        anisotropy_size: configurations at a time that predict all others when Sigma_E is trained.
        anisotropy_folds: how many such sets of configurations.
        anisotropy_loss: of the errors of the others. "mse": the mean of their squares; "rmse": the mean of the root
            mean squares of each configuration, by which a few that are far from all others do not decide.
        gate_inducing: inducing configurations of the gate.
        gate_widths: widths of the gate's kernel to choose from, by the typical distance, the smoothest first.
        gate_scales: values of lambda_G to choose from, in squared steps of the ladder.
        softmax_gate: options of the paper's gate in place of the ordinal one, which `gate_widths` and `gate_scales` are
            options of.
        device: "cpu", "cuda", "cuda:N" or "auto"; None for the CPU.
    """

    preset: str | None = None
    labels: str | None = "both"
    kernel: str = "gaussian"
    mixture: bool = True
    inducing: int | None = None
    bandwidths: tuple[float, ...] = BANDWIDTHS
    noise: float = 1e-9
    anisotropy: str | None = "tied"
    anisotropy_size: int = 128
    anisotropy_folds: int = 2
    anisotropy_loss: str = "mse"
    gate_inducing: int = 256
    gate_widths: tuple[float, ...] = (4.0, 2.0, 1.0)
    gate_scales: tuple[float, ...] = (0.5, 2.0)
    softmax_gate: SoftmaxGateOptions | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        check_preset(self.preset, PRESETS)
        radial_kernel_named(self.kernel)
        if self.labels is not None:
            Labels.named(self.labels)
        if self.anisotropy not in (None, *ANISOTROPIES):
            raise ValueError(f"anisotropy must be None or one of {', '.join(ANISOTROPIES)}, got {self.anisotropy!r}")
        if self.anisotropy_loss not in LOSSES:
            raise ValueError(f"anisotropy_loss must be one of {', '.join(LOSSES)}, got {self.anisotropy_loss!r}")
        increasing = all(0.0 < a < b < math.inf for a, b in pairwise(self.bandwidths))
        if len(self.bandwidths) < 2 or not increasing:
            raise ValueError(f"bandwidths must be two or more, positive and increasing, got {self.bandwidths}")
        positive = {"noise": (self.noise,), "gate_widths": self.gate_widths, "gate_scales": self.gate_scales}
        for name, values in positive.items():
            if not values or not all(0.0 < value < math.inf for value in values):
                raise ValueError(f"{name} must be positive and finite, got {getattr(self, name)}")
        for name in ("inducing", "anisotropy_size", "anisotropy_folds", "gate_inducing"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self._check_softmax_gate()

    def _check_softmax_gate(self) -> None:
        """Refuse options without effect."""
        if self.softmax_gate is None:
            return
        if not self.mixture:
            raise ValueError("softmax_gate is an option of mixtures; with mixture=False, pass softmax_gate=None")
        for each in fields(self):
            if each.name in ORDINAL and (value := getattr(self, each.name)) != each.default:
                raise ValueError(f"{each.name} is an option of the ordinal gate, got {value} with softmax_gate")

    @classmethod
    def from_fields(cls, entries: Mapping[str, Any]) -> "ForceFieldSettings":
        """The settings from the dictionary of their fields, or from that of a campaign that version 0.1.0 wrote.

        Raises:
            ValueError: an entry is of the wrong kind or out of range.
        """
        (EARLIER_FIELDS if isinstance(entries, Mapping) and "gate" in entries else FIELDS)(entries, "settings")
        values = {each.name: entries[each.name] for each in fields(cls) if each.name in entries}
        if "gate" in entries:  # version 0.1.0 had some under other names
            values |= {
                "labels": entries["labels"].lower(),
                "inducing": entries["sparse"],
                "anisotropy": "tied" if entries["anisotropic"] else None,
                "anisotropy_size": entries["inducing"],
                "anisotropy_folds": entries["folds"],
                **{f"gate_{name}": entries["gate"][name] for name in GATE if name in entries["gate"]},
            }
        # JSON does not tell 1 from 1.0.
        lists: dict[str, Any] = {
            name: tuple(map(float, value)) for name, value in values.items() if isinstance(value, list)
        }
        lists |= {"noise": float(values["noise"])} if "noise" in values else {}
        if (gate := values.get("softmax_gate")) is not None:
            values["softmax_gate"] = SoftmaxGateOptions(**{name: gate[name] for name in SOFTMAX_NAMES if name in gate})
        return cls(**values | lists)
