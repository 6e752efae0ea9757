"""From the options of a user to the settings of a mixture, and options as JSON can hold them."""

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.core.arrays import resolve_device
from lobal.core.checks import whole_number
from lobal.core.kernels import KERNELS, Kernel, gaussian
from lobal.inducing.select import checked_parameters
from lobal.mixture.checks import ascending, bandwidth_matrix, column_groups, one_of, positive
from lobal.mixture.engine import EngineOptions
from lobal.mixture.engines import DEFAULT_ENGINE, ENGINES
from lobal.mixture.settings import MixtureSettings, TrainingSettings
from lobal.mixture.units import as_tensor

Arguments = ParamSpec("Arguments")

AUTO, ONCE = "auto", "once"
OBJECTIVES = {"elbo": "elbo", "mse": "mse"}

N_INDUCING = MixtureSettings.n_inducing  # the default of sparse experts
# The most labels of exact experts by default: a few seconds of work. In one column inducing points are dense enough.
LARGEST_EXACT = 2048


def mixture_settings(
    options: Mapping[str, Any], *, n: int, d: int, dimension: float, label_scale: float
) -> MixtureSettings:
    """The settings of a mixture of n training labels in d columns, from the options of a `MixtureRegressor`.

    Raises:
        ValueError: An option is out of range, or has no effect.
    """
    engine, bandwidths, inducing = engine_options(options["engine"]), options["bandwidths"], options["inducing"]
    may_be_exact = engine.exact_by_default and options["n_inducing"] is None and not options["exchange"]
    exact = are_exact(options["experts"], n, d, by_default=may_be_exact)
    _check_effect(engine, options, exact=exact)
    if inducing != "auto":
        checked_parameters(inducing, d, {})

    def width(name: str) -> Float[Tensor, "..."] | None:
        matrix = bandwidth_matrix(name, options[name], d)
        return None if matrix is None else as_tensor(matrix, resolve_device(options["device"]))

    def number(name: str, default: Any = None) -> Any:  # noqa: ANN401 - an int, or the default
        return default if options[name] is None else whole_number(name, options[name], least=1)

    ladder = ascending(default_bandwidths(dimension) if bandwidths is None else bandwidths)
    return MixtureSettings(
        bandwidths=as_tensor(ladder, resolve_device(options["device"])),
        shared_bandwidth=width("shared_bandwidth"),
        gate_bandwidth=width("gate_bandwidth"),
        anisotropic=options["anisotropic"],
        column_groups=column_groups(options["column_groups"], d),
        scale=None if options["scale"] is None else positive("scale", options["scale"]) / label_scale**2,
        kernel=_kernel(options["kernel"], may_choose=engine.chooses_kernel),
        exact=exact,
        n_inducing=number("n_inducing", N_INDUCING),
        n_gate_inducing=number("n_gate_inducing"),
        inducing=inducing,
        refit=options["refit"],
        exchange=options["exchange"],
        training=engine.training(n, one_of("objective", options["objective"], OBJECTIVES)),
        adaptive=bandwidths is None,
        cache_bytes=number("cache_bytes"),
    )


def _kernel(name: object, *, may_choose: bool) -> Kernel | None:
    """The kernel of that name; with "auto" None, which leaves the choice to the fit, or the Gaussian."""
    return one_of("kernel", name, KERNELS | {AUTO: None if may_choose else gaussian})


def names_engine_options(init: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """The constructor, which raises a TypeError with the right call if it is given an option of an engine."""

    @functools.wraps(init)
    def constructor(*args: Arguments.args, **options: Arguments.kwargs) -> None:
        if message := misplaced(options):
            raise TypeError(message)
        init(*args, **options)

    return constructor


def misplaced(options: Mapping[str, Any]) -> str | None:
    """What is wrong with options of an engine that are given to the model; None if they are of no engine."""
    for name, value in options.items():
        owners = [each.__name__ for each in ENGINES.values() if name in _names(each)]
        if owners:
            of = " and the ".join(f"{owner} engine" for owner in owners)
            calls = " or ".join(f"MixtureRegressor(engine=lobal.{owner}({name}={value!r}))" for owner in owners)
            return f"{name} is an option of the {of}: {calls}"
    return None


def _check_effect(engine: EngineOptions, options: Mapping[str, Any], *, exact: bool) -> None:
    """Raise an error for options that the engine cannot use."""
    noise = options["noise"]
    if options["tuning"] == ONCE and not engine.can_tune_once:
        raise ValueError(f"tuning={ONCE!r} needs the Adam engine, got {engine!r}; use tuning='full', or engine='adam'")
    if isinstance(noise, str) and not engine.can_estimate_noise:
        raise ValueError(
            f"noise={noise!r} needs the analytic engine, got {engine!r}; use engine='analytic', or give the noise as a "
            "number or a function of the inputs"
        )
    if names := engine.without_effect(exact=exact):
        raise ValueError(
            f"{names[0]} of {engine!r} has no effect on {'exact' if exact else 'sparse'} experts; leave it out"
        )


def comparable_training(engine: object, n: int, objective: str) -> TrainingSettings:
    """The training of the model's engine if it has leave-one-out residuals, otherwise that of the default engine."""
    options = engine_options(engine)
    return (options if options.can_estimate_noise else engine_options(DEFAULT_ENGINE)).training(n, objective)


def default_bandwidths(dimension: float) -> Float[ndarray, "7"]:
    """sigma_l = 2^((l - 4) / delta) for l = 1 ... 7, Algorithm 2."""
    return np.exp2(np.arange(-3, 4) / dimension)


def are_exact(experts: str, n: int, d: int, *, by_default: bool) -> bool:
    """Whether experts of n labels in d columns are exact; with "auto" if so by default, few and in several columns."""
    auto = by_default and d > 1 and n <= LARGEST_EXACT
    return one_of("experts", experts, {"sparse": False, "exact": True, "auto": auto})


def engine_options(engine: object) -> EngineOptions:
    """The options of an engine, which is given as such or by name."""
    if isinstance(engine, EngineOptions):
        return engine
    if not isinstance(engine, str) or engine not in ENGINES:
        objects = " or ".join(f"lobal.{each.__name__}(...)" for each in ENGINES.values())
        raise ValueError(f"engine must be one of {sorted(ENGINES)}, or {objects}, got {engine!r}")
    return ENGINES[engine]()


def from_flat_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of models in files of format 2 and earlier, where all options were the model's own.

    Options without effect under the engine are dropped. None was the engine's default.
    """
    name = options.get("engine", DEFAULT_ENGINE)
    kind = one_of("engine", name, ENGINES)
    own = {key: options[key] for key in _names(kind) if options.get(key) is not None}
    engine = kind(**own)
    engine = kind(**_without(own, engine.without_effect(exact=options.get("experts") == "exact")))
    of_any = {key for each in ENGINES.values() for key in _names(each)}
    return {**_without(options, of_any), "engine": name if engine == kind() else engine}


def options_to_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as JSON can hold them: an engine with its kind and options, arrays as lists, no functions."""
    plain: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, EngineOptions):
            kind = next(kind for kind, each in ENGINES.items() if isinstance(value, each))
            plain[name] = {"kind": kind, "options": options_to_json(value.get_params())}
        elif isinstance(value, torch.device):
            plain[name] = str(value)
        elif callable(value) or isinstance(value, np.random.RandomState):
            warnings.warn(f"{name}={value!r} is not data and is not saved with the model", stacklevel=4)
        else:
            plain[name] = value.tolist() if isinstance(value, ndarray | np.generic) else value
    return plain


def options_from_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The options that `options_to_json` made plain, also those of earlier versions."""
    engine = fields.get("engine")
    if not isinstance(engine, Mapping):
        return from_flat_options(fields)
    kind = one_of("kind of the engine", engine.get("kind"), ENGINES)
    options = engine.get("options")
    unknown = sorted(set(options) - set(_names(kind))) if isinstance(options, Mapping) else [options]
    if not isinstance(options, Mapping) or unknown:
        raise ValueError(f"options of {kind.__name__} are {sorted(_names(kind))}, got {unknown}")
    return {**fields, "engine": kind(**options)}


def _names(options: type[EngineOptions]) -> list[str]:
    names: list[str] = options._get_param_names()
    return names


def _without(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in set(names)}
