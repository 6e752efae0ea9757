"""From labelled data to a fitted mixture: global expert, inducing points, experts, gate, training."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Bandwidths
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import Kernel, WhitenedFeatures, gaussian, scale_inputs
from lobal.experts.exact import ExactExperts, exact_experts
from lobal.experts.features import StoredFeatures
from lobal.experts.fitc import inducing_covariance
from lobal.experts.global_expert import fit_global_expert
from lobal.experts.interface import Experts, Hyperparameters
from lobal.experts.leave_one_out import (
    condition,
    exact_leave_one_out,
    leave_one_out_among_neighbours,
    sparse_leave_one_out,
)
from lobal.experts.svgp import SparseExperts
from lobal.inducing.selection import inducing_points
from lobal.mixture.adam.responses import (
    CovarianceModel,
    FixedResponses,
    Responses,
    SparseResponses,
    zero_covariance,
)
from lobal.mixture.adam.training import AdamSettings, Trainer
from lobal.mixture.analytic.training import (
    AnalyticSettings,
    Trained,
    best_gate,
    best_gate_features,
    clear_measure,
    fit_gate,
    measures,
    train,
    updated_noise,
    utilities,
)
from lobal.mixture.gate import Gate, SoftmaxGate
from lobal.mixture.ladder import CHANGES, extended, in_use, trimmed
from lobal.mixture.model import Mixture
from lobal.mixture.objective import mixture_squared_error
from lobal.mixture.progress import Progress

# The default gate bandwidth in units of the global expert's: experts switch more slowly than functions vary. Of 2 and
# 15, tried on 11 data sets, 2 was mostly the better, 15 at few labels in many columns; 3 itself was not tried.
GATE_WIDTH = 3.0
# The ordinal gate's, from the smoothest to the least smooth, to be compared on held-out points.
ORDINAL_GATE_WIDTHS = (30.0, 10.0, 3.0)
# A bandwidth of so many times the inputs' extent is as good as infinite.
FLAT = 10.0
# The analytic engine's pilot: one point in so many, and no fewer than show the ladder it takes.
PILOT_SHARE = 4
SMALLEST_PILOT = 512
# Labels that exact experts know in their pilot, at the most: L n NEIGHBOURS^2 work.
NEIGHBOURS = 512
# Inducing points lie the closer the smaller the pilot's bandwidth: sigma^-d times as dense as the inputs. Bandwidths in
# many columns are known badly, so d counts as so much at the most, and the logarithm of the factor likewise.
MOST_COLUMNS = 2
LARGEST_LOG_DENSITY = 3.0


@final
@dataclass(frozen=True, kw_only=True)
class MixtureSettings:
    """What the mixture is made of; defaults are the paper's where it names one."""

    bandwidths: Bandwidths  # sigma_l, ascending
    shared: Float[Tensor, "..."] | None = None  # Sigma_E: a number, one width per column, or a matrix
    gate_bandwidth: Float[Tensor, "..."] | None = None  # sigma_G I, likewise
    anisotropic: bool = False  # one width per column in the global expert's bandwidth
    scale: float | None = None  # initial lambda_E; None: the global expert's
    kernel: Kernel = gaussian
    dense: bool = False  # exact experts, the gate trained on leave-one-out responses or on a gate set
    n_inducing: int = 512  # m_E
    n_gate_inducing: int = 128  # m_G
    gate_scale: float = 10.0  # lambda_G of Adam's softmax gate
    covariance: CovarianceModel = zero_covariance  # S while training
    refit: bool = True  # condition the experts once more under the trained gate
    exchange: bool = False  # put exact experts in the place of the sparse ones at the end
    training: AdamSettings | AnalyticSettings = field(default_factory=AnalyticSettings)
    cache_bytes: int | None = None  # features that take more are recomputed when needed; None: the default, 4 GiB
    pilot: bool = True  # look for ladder, gate width and noise on a share of the points first (analytic engine)
    adaptive: bool = False  # move the ladder of bandwidths to where it is used (analytic engine)


@final
@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """What a mixture is fitted to.

    The gate of dense experts learns from `gate_set`, or from leave-one-out responses where there is none. The
    validation labels steer Adam and then join the data, unless `keep_validation` holds them back; the analytic engine
    needs none.
    """

    points: LabelledSet
    validation: LabelledSet | None = None
    gate_set: LabelledSet | None = None
    keep_validation: bool = False

    def known(self) -> LabelledSet:
        """All labels but those for validation."""
        return self.points if self.gate_set is None else LabelledSet.joined(self.points, self.gate_set)

    def in_the_end(self) -> LabelledSet:
        """All labels that the final experts may be conditioned on."""
        known = self.known()
        return known if self.keep_validation or self.validation is None else LabelledSet.joined(known, self.validation)


class FittedMixture(NamedTuple):
    """A mixture, what its experts share, and what it leaves of labels that are predicted from all others."""

    mixture: Mixture
    hyperparameters: Hyperparameters
    residual: Float[Tensor, " n"] | None = None  # leave-one-out, of all labels but those for validation (analytic)


class Start(NamedTuple):
    """Where training starts: from the global expert, or from what the user knows."""

    hyperparameters: Hyperparameters
    shared: Float[Tensor, "..."]
    global_bandwidth: Float[Tensor, " d"]


def fit_mixture(
    data: TrainingData,
    settings: MixtureSettings,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> FittedMixture:
    """A mixture trained on the data: its gate by Adam (Sec. 4.4.2) or by the analytic engine."""
    start = global_start(data.points, settings, generator)
    match settings.training:
        case AdamSettings() as adam:
            return _fit_by_adam(data, start, settings, adam, generator, progress)
        case AnalyticSettings() as analytic:
            engine = _fit_exact if settings.dense else _fit_sparse
            return engine(data, start, settings, analytic, generator, progress)


def _fit_by_adam(
    data: TrainingData,
    start: Start,
    settings: MixtureSettings,
    training: AdamSettings,
    generator: torch.Generator,
    progress: Progress | None,
) -> FittedMixture:
    prepare = _dense_responses if settings.dense else sparse_responses
    responses = prepare(data, start, settings, generator)
    width = GATE_WIDTH * start.global_bandwidth if settings.gate_bandwidth is None else settings.gate_bandwidth
    gate_features = gate_features_at(responses.points, width, settings, generator)
    gate = SoftmaxGate.uniform(gate_features, n_experts=len(settings.bandwidths), scale=settings.gate_scale)
    trained = Trainer(responses, gate, training, generator).run(progress)
    experts = _final_experts(responses, trained, data, settings, start)
    return _fitted(experts, trained, settings.bandwidths, start)


def _fit_sparse(
    data: TrainingData,
    start: Start,
    settings: MixtureSettings,
    training: AnalyticSettings,
    generator: torch.Generator,
    progress: Progress | None,
) -> FittedMixture:
    """The analytic engine on sparse experts.

    A pilot on a share of the points and half the inducing points, a sixteenth of the work, finds the ladder of
    bandwidths, the gate's bandwidth, the noise to begin with, and where the inducing points should lie unless the
    points say so.
    """
    points = _training_points(data, training)
    gates = _gate_candidates(points, start, settings, generator)
    bandwidths, shared, gate = (
        settings.bandwidths,
        _with_known_noise(start.hyperparameters, points),
        gates[len(gates) // 2],
    )
    if settings.pilot and (settings.adaptive or len(gates) > 1):
        n_few = max(len(points) // PILOT_SHARE, min(len(points), SMALLEST_PILOT))
        few = points[torch.randperm(len(points), generator=generator)[:n_few].to(points.y.device)]
        fewer = _spread_points(few, max(settings.n_inducing // 2, 1), start.shared, generator)
        pilot = _climbed(
            few,
            fewer,
            gate,
            bandwidths,
            _with_known_noise(start.hyperparameters, few),
            start,
            settings,
            training,
            progress,
        )
        noisy = pilot.trained.shared
        if settings.adaptive:
            bandwidths = trimmed(pilot.stored.features.bandwidths, pilot.trained.shares)
        if points.noise is None:
            shared = pilot.trained.shared
        utility, measure = pilot.trained.utility, training
        answers = sparse_leave_one_out(pilot.stored, few, noisy, condition(pilot.stored, few, noisy))
        training = clear_measure(gate, few, answers, measure)
        if training is not measure:
            utility = utilities(answers, few.y, training)
        gate = best_gate_features(gates, few, utility, training, generator)
        if points.spread is None:
            points = replace(points, spread=_wanted_density(pilot, points.X))
    inducing = _spread_points(points, settings.n_inducing, start.shared, generator)
    stored, trained = _climbed(points, inducing, gate, bandwidths, shared, start, settings, training, progress)
    bandwidths = stored.features.bandwidths
    if settings.exchange:
        experts: Experts = _exact(data.in_the_end(), trained.shared, start.shared, settings, bandwidths)
        return _fitted(experts, trained.gate, bandwidths, start, trained.residual)
    weights = trained.gate(points.X) if settings.refit else None
    conditioned = condition(stored, points, trained.shared, weights)
    experts = SparseExperts(
        features=stored.features,
        hyperparameters=trained.shared,
        whitened_mean=conditioned.whitened_mean,
        covariance=inducing_covariance(conditioned.equations),
    )
    return _fitted(experts, trained.gate, bandwidths, start, trained.residual)


class _Climbed(NamedTuple):
    stored: StoredFeatures
    trained: Trained


def _wanted_density(pilot: _Climbed, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """How dense inducing points should lie at the inputs, over how dense these do, by the bandwidths of the pilot."""
    log_bandwidth = pilot.trained.gate(X) @ pilot.stored.features.bandwidths.log()
    log_density = -min(X.shape[1], MOST_COLUMNS) * (log_bandwidth - log_bandwidth.mean())
    return log_density.clamp(-LARGEST_LOG_DENSITY, LARGEST_LOG_DENSITY).exp()


def _climbed(
    points: LabelledSet,
    inducing: Float[Tensor, "m d"],
    gate_features: WhitenedFeatures,
    bandwidths: Bandwidths,
    shared: Hyperparameters,
    start: Start,
    settings: MixtureSettings,
    training: AnalyticSettings,
    progress: Progress | None,
) -> _Climbed:
    """Train, and if an end of the ladder is in use, extend it and train again."""
    for _ in range(CHANGES):
        features = WhitenedFeatures.at(inducing, bandwidths=bandwidths, shared=start.shared, kernel=settings.kernel)
        stored = StoredFeatures(features, points.X, settings.cache_bytes)
        trained = train(stored, points, gate_features, shared, training, progress)
        # A bandwidth too small for the inducing points takes all for noise: no reason to ask for a smaller one.
        resolved = (trained.gate(points.X).mT * stored.explained).mean(dim=1)
        longer = _longer(bandwidths, resolved, points, start, settings)
        if len(longer) == len(bandwidths):
            break
        bandwidths, shared = longer, trained.shared
    return _Climbed(stored, trained)


def _fit_exact(
    data: TrainingData,
    start: Start,
    settings: MixtureSettings,
    training: AnalyticSettings,
    generator: torch.Generator,
    progress: Progress | None,
) -> FittedMixture:
    """The analytic engine on exact experts: the gate learns from their leave-one-out answers.

    These cost L n^3, so that they are asked for once: a pilot in which the experts know their neighbourhoods alone
    finds the ladder of bandwidths and the noise.
    """
    points = _training_points(data, training)
    gates = _gate_candidates(points, start, settings, generator)
    gate = gates[len(gates) // 2]
    bandwidths, shared = settings.bandwidths, _with_known_noise(start.hyperparameters, points)
    if settings.pilot:
        bandwidths, shared = _among_neighbours(points, gate, shared, start, settings, training)
    else:
        training = replace(training, compared=False)
    experts = _exact(points, shared, start.shared, settings, bandwidths)
    answers = exact_leave_one_out(experts)
    if settings.pilot:
        gate = best_gate_features(gates, points, utilities(answers, points.y, training), training, generator)
    trained = best_gate(gate, points, answers, shared, training)
    if progress is not None:
        progress(trained.as_epoch(0))
    return _fitted(experts, trained.gate, bandwidths, start, trained.residual)


def _among_neighbours(
    points: LabelledSet,
    gate_features: WhitenedFeatures,
    shared: Hyperparameters,
    start: Start,
    settings: MixtureSettings,
    training: AnalyticSettings,
) -> tuple[Bandwidths, Hyperparameters]:
    """The ladder that any measure of the experts makes use of, and the noise, from answers among neighbours.

    The noise is updated once, from the global expert's. To go on until it settles is to go on for long where there is
    none, towards experts that are too sure of themselves for their likelihoods to be compared.
    """
    phi, longer = gate_features(points.X)[0], settings.bandwidths
    for _ in range(CHANGES):
        bandwidths = longer
        answers = leave_one_out_among_neighbours(
            points,
            shared,
            bandwidths=bandwidths,
            bandwidth=start.shared,
            kernel=settings.kernel,
            most=NEIGHBOURS,
        )
        both = measures(training)[:2]  # with the price and without
        fits = [fit_gate(gate_features, phi, points, answers, shared, measure) for measure in both]
        shares = torch.stack([fit.shares for fit in fits]).amax(dim=0)
        longer = _longer(bandwidths, shares, points, start, settings)
        if len(longer) == len(bandwidths):
            break
    if points.noise is None:
        everything = torch.ones_like(answers.mean)  # is explained by as many inducing points as labels
        noise = updated_noise(shared, everything, answers, points, fits[0].gate.at_features(phi))
        shared = shared._replace(noise=noise)
    return in_use(bandwidths, shares) if settings.adaptive else bandwidths, shared


def _longer(
    bandwidths: Bandwidths, shares: Float[Tensor, " L"], points: LabelledSet, start: Start, settings: MixtureSettings
) -> Float[Tensor, " longer"]:
    """The ladder extended where it may be, to what is as good as infinite."""
    if not settings.adaptive:
        return bandwidths
    scaled = scale_inputs(points.X, start.shared)
    return extended(bandwidths, shares, FLAT * (scaled.amax(dim=0) - scaled.amin(dim=0)).max().item())


def _with_known_noise(hyperparameters: Hyperparameters, points: LabelledSet) -> Hyperparameters:
    """The hyperparameters with the noise variances of the points, where these are known."""
    return hyperparameters if points.noise is None else hyperparameters._replace(noise=points.noise)


def _training_points(data: TrainingData, training: AnalyticSettings) -> LabelledSet:
    points = data.known()
    return points if training.weighted else replace(points, weight=torch.ones_like(points.weight))


def _fitted(
    experts: Experts,
    gate: Gate,
    bandwidths: Bandwidths,
    start: Start,
    residual: Float[Tensor, " n"] | None = None,
) -> FittedMixture:
    mixture = Mixture(experts=experts, gate=gate, bandwidths=bandwidths, shared=start.shared)
    return FittedMixture(mixture, experts.hyperparameters, residual)


def column_widths(X: Float[Tensor, "n d"]) -> Float[Tensor, " d"]:
    """The natural width of each input column: its standard deviation, one where it is constant."""
    spread = X.std(dim=0)
    negligible = 1e-12 * X.abs().amax(dim=0)
    return torch.where(spread > negligible, spread, torch.ones_like(spread))


def global_start(points: LabelledSet, settings: MixtureSettings, generator: torch.Generator) -> Start:
    """What the global expert says, where the settings do not."""
    expert = fit_global_expert(
        points,
        unit=column_widths(points.X),
        kernel=settings.kernel,
        anisotropic=settings.anisotropic,
        generator=generator,
    )
    hyperparameters = expert.hyperparameters
    if settings.scale is not None:
        hyperparameters = hyperparameters._replace(scale=torch.full_like(hyperparameters.scale, settings.scale))
    return Start(
        hyperparameters,
        shared=expert.bandwidth if settings.shared is None else settings.shared,
        global_bandwidth=expert.bandwidth,
    )


def sparse_responses(
    data: TrainingData, start: Start, settings: MixtureSettings, generator: torch.Generator
) -> SparseResponses:
    """Sparse experts for Adam to train, on inducing points of their own and the points in random order."""
    points = data.known()
    points = points[torch.randperm(len(points), generator=generator).to(points.y.device)]
    features = WhitenedFeatures.at(
        _spread_points(points, settings.n_inducing, start.shared, generator),
        bandwidths=settings.bandwidths,
        shared=start.shared,
        kernel=settings.kernel,
    )
    return SparseResponses(
        points,
        steering_labels(data),
        features,
        start.hyperparameters,
        covariance=settings.covariance,
        cache_bytes=settings.cache_bytes,
        is_shuffled=True,
    )


def _dense_responses(
    data: TrainingData, start: Start, settings: MixtureSettings, generator: torch.Generator
) -> FixedResponses:
    del generator  # no inducing points, nothing to draw
    experts = _exact(data.points, start.hyperparameters, start.shared, settings, settings.bandwidths)
    if data.gate_set is not None:
        return FixedResponses.on_gate_set(data.gate_set, steering_labels(data), experts)
    return FixedResponses.leave_one_out(data.points, steering_labels(data), experts)


def steering_labels(data: TrainingData) -> LabelledSet:
    """The validation labels, which Adam cannot do without."""
    if data.validation is None:
        raise ValueError("Adam needs validation labels to know when to stop; give some, or take the analytic engine")
    return data.validation


def _exact(
    points: LabelledSet,
    hyperparameters: Hyperparameters,
    shared: Float[Tensor, "..."],
    settings: MixtureSettings,
    bandwidths: Bandwidths,
) -> ExactExperts:
    return exact_experts(
        points.X,
        points.y,
        _with_known_noise(hyperparameters, points),
        bandwidths=bandwidths,
        shared=shared,
        kernel=settings.kernel,
    )


def _gate_candidates(
    points: LabelledSet, start: Start, settings: MixtureSettings, generator: torch.Generator
) -> list[WhitenedFeatures]:
    """Features of the gates to choose from: of one bandwidth if it is given."""
    if settings.gate_bandwidth is not None:
        return [gate_features_at(points, settings.gate_bandwidth, settings, generator)]
    widths = [width * start.global_bandwidth for width in ORDINAL_GATE_WIDTHS]
    return [gate_features_at(points, width, settings, generator) for width in widths]


def gate_features_at(
    points: LabelledSet, width: Float[Tensor, "..."], settings: MixtureSettings, generator: torch.Generator
) -> WhitenedFeatures:
    """Features of a gate of the given bandwidth, on inducing points of its own."""
    return WhitenedFeatures.at(
        _spread_points(points, settings.n_gate_inducing, width, generator),
        bandwidths=torch.ones_like(settings.bandwidths[:1]),
        shared=width,
        kernel=gaussian,
    )


def _spread_points(
    points: LabelledSet, m: int, shared: Float[Tensor, "..."], generator: torch.Generator
) -> Float[Tensor, "m d"]:
    """Inducing points spread in the geometry of the kernel they serve, in units of the inputs."""
    scaled = inducing_points(scale_inputs(points.X, shared), m, generator=generator, weight=points.spread)
    return scaled @ shared.mT if shared.ndim == 2 else scaled * shared


def _final_experts(
    responses: Responses, gate: SoftmaxGate, data: TrainingData, settings: MixtureSettings, start: Start
) -> Experts:
    """The experts that Adam leaves to predict with: as trained, conditioned once more, or exchanged for exact ones."""
    trained = responses.experts()
    if settings.exchange or (settings.refit and settings.dense):
        return _exact(data.in_the_end(), trained.hyperparameters, start.shared, settings, settings.bandwidths)
    if not (settings.refit and isinstance(responses, SparseResponses)):
        return trained
    refitted = responses.refit(gate, with_validation=not data.keep_validation)
    if not data.keep_validation:
        return refitted
    # Validation can still tell which inducing values are better; the posterior covariance is kept either way.
    best = min((refitted, responses.experts()), key=lambda experts: _error(experts, gate, steering_labels(data)))
    return replace(refitted, whitened_mean=best.whitened_mean)


def _error(experts: Experts, gate: Gate, validation: LabelledSet) -> float:
    return mixture_squared_error(gate(validation.X), experts.mean(validation.X), validation.y, validation.weight).item()
