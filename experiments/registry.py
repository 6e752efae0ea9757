"""The experiments: what each measures, which figures of the paper it reproduces, and the commands of its scales.

An experiment without scales has no size: it is run by its own options only. `{options}` in its commands stands for
those of the scale, `{folder}` for the folder of records and figures, `{data}` for that of the data sets.
"""

import os
from typing import NamedTuple

SCALES = ("smoke", "quick", "paper")  # whether it runs; minutes on one core; the paper's sizes and repetitions

# Most experiments write one record and one figure.
RECORD = "{name} {options} --output {folder}/{name}.json"
FIGURE = RECORD + " --figure {folder}/figures/{name}.png"
BOTH_ARMS = """
doppler_active draws --oracle {options} --output {folder}/doppler_curve_active.json
doppler_active random {options} --output {folder}/doppler_curve_random.json
doppler_curves {folder}/doppler_curve_active.json {folder}/doppler_curve_random.json \
--figure {folder}/figures/{name}.png
"""
MALONALDEHYDE = """
malonaldehyde {options} --grid {data}/malonaldehyde_gfn2_relaxed_grid.npz --output {folder}/malonaldehyde
malonaldehyde_report {folder}/malonaldehyde --grid {data}/malonaldehyde_gfn2_relaxed_grid.npz --figures {folder}/figures
"""
MALONALDEHYDE_GATE = """
{name} {options} --grid {data}/malonaldehyde_gfn2_relaxed_grid.npz --output {folder}/malonaldehyde/gate.json \
--figure {folder}/figures/{name}.png
"""
HETEROSCEDASTIC = """
heteroscedastic aware {options} --output {folder}/heteroscedastic_aware.json
heteroscedastic blind {options} --output {folder}/heteroscedastic_blind.json
heteroscedastic random {options} --output {folder}/heteroscedastic_random.json
heteroscedastic homoscedastic {options} --output {folder}/heteroscedastic_homoscedastic.json
heteroscedastic_figure {folder} --figure {folder}/figures/{name}.png
"""
PEERS = """
peers {folder}/peers.jsonl --data {data} {options}
peers_report {folder}/peers.jsonl --figure {folder}/figures/peers.png
peers_calibration {folder}/peers.jsonl --figure {folder}/figures/peers_calibration.png
"""


class Experiment(NamedTuple):
    """The function that an experiment runs, as "module:function", what it measures, and its scales."""

    function: str
    summary: str
    figures: tuple[str, ...] = ()  # of the paper, by their labels
    commands: str = RECORD  # one a line
    smoke: str | None = None  # options of the scale; None: there is no such scale
    quick: str | None = None
    paper: str | None = None

    @property
    def needs_data(self) -> bool:
        """Whether it reads data sets from the folder LOBAL_DATA."""
        return "{data}" in self.commands

    @property
    def scales(self) -> dict[str, str]:
        """Options by scale."""
        options = dict(zip(SCALES, (self.smoke, self.quick, self.paper), strict=True))
        return {scale: words for scale, words in options.items() if words is not None}


def commands(name: str, scale: str, folder: str, further: str = "") -> list[list[str]]:
    """The words of every command of an experiment at a scale; `further` options replace those of the scale.

    Raises:
        ValueError: there is no such scale, or data are needed and LOBAL_DATA is not set.
    """
    experiment = EXPERIMENTS[name]
    if scale not in experiment.scales:
        known = ", ".join(experiment.scales) or f"none; see python -m experiments {name} --help"
        raise ValueError(f"the scales of {name} are: {known}; got {scale!r}")
    data = os.environ.get("LOBAL_DATA")
    if experiment.needs_data and data is None:
        raise ValueError(f"{name} reads data sets; set LOBAL_DATA to their folder")
    options = experiment.scales[scale].format(data=data)
    lines = experiment.commands.format(name=name, options=f"{options} {further}", folder=folder, data=data)
    return [line.split() for line in lines.strip().splitlines()]


EXPERIMENTS = {
    "complexity_truth": Experiment(
        "experiments.complexity_truth:main",
        "local complexity compared with that of known functions",
        commands=FIGURE,
        smoke="--sizes 30,60 --functions chirp1,chirp2 --seeds 1",
        quick="--sizes 100,200,400 --seeds 2",
        paper="--sizes 100,200,400,800 --seeds 3",
    ),
    "deep_gp": Experiment(
        "experiments.deep_gp:main",
        "a deep Gaussian process on random, equidistant, ALC and superior labels",
        ("fig:dopplerExperiment_DGP_EquiVsUncertaintyVsPOpt",),
        commands=FIGURE,
        smoke="--sizes 32,48 --gate-labels 640 --n-inducing 16 --chains 1 --ascent 5 --burn-in 1 --sweeps 10 --seeds 1",
        quick="--sizes 128,256 --gate-labels 2048 --chains 2 --burn-in 20 --sweeps 60 --seeds 2",
        paper="--seeds 16",
    ),
    "doppler_fit": Experiment(
        "experiments.doppler:fit_command",
        "one fit of the Doppler function, with figures",
        ("fig:dopplerExperiment_gate_LFC_LOB_pOpt", "fig:dopplerExperiment_dataset_globalPredictions"),
        commands="doppler_fit --single-scale --quiet {options} --output {folder}/figures/doppler",
        smoke="--n 64",
        quick="--n 2048",
        paper="--n 2048",
    ),
    "doppler_statistics": Experiment(
        "experiments.doppler:statistics_command",
        "errors of mixture and single-scale GP on random labels",
        ("fig:dopplerExperiment_MoE_VS_globalGPR",),
        smoke="--sizes 32,64 --seeds 1",
        quick="--sizes 512,1024,2048 --seeds 4",
        paper="--sizes 512,1024,2048,4096,8192 --seeds 20",
    ),
    "doppler_active": Experiment("experiments.doppler_active:main", "one arm, active or random, over seeds"),
    "doppler_curves": Experiment(
        "experiments.doppler_curves:main",
        "table and figure from the files of both arms",
        ("fig:dopplerExperiment_LPSOpt_Vs_GPROpt_alternative",),
        commands=BOTH_ARMS,
        smoke="--start 16 --n 64 --n-inducing 16 --seeds 2",
        quick="--n 4096 --seeds 4",
        paper="--n 32768 --seeds 20",
    ),
    "density_edges": Experiment(
        "experiments.density_edges:main",
        "errors of the density of a pool on known densities",
        smoke="--sizes 50",
        quick="--sizes 500",
        paper="",
    ),
    "equidistant": Experiment(
        "experiments.equidistant:main",
        "equidistant and random inputs to 2^15 labels",
        ("fig:dopplerExperiment_GPR_UnifVsEqui",),
        commands=FIGURE,
        smoke="--sizes 16,32 --n-inducing 8 --seeds 1",
        quick="--n-inducing 256 --seeds 4",
        paper="--n-inducing 1024 --seeds 20",
    ),
    "forcefield_grow": Experiment(
        "experiments.forcefield_grow:main",
        "force fields from one configuration, beside others of as many labels",
        commands="{name} examples/molecules/malonaldehyde.xyz {options} --output {folder}/forcefield_grow/{name}.json",
        smoke="--n 30 --first 20 --configurations 200 --test-frames 20 --settle 20 --arms random,frames --seeds 1",
        quick="--arms random,frames --seeds 1",
        paper="--picoseconds 50 --seeds 3",
    ),
    "greedy_points": Experiment(
        "experiments.greedy_points:main",
        "greedy inducing points of every expert by thresholds",
        ("fig:dopplerExperiment_ourIPsVsGFF",),
        commands=FIGURE,
        smoke="--n 640 --sizes 8,16 --n-inducing 16 --seeds 1",
        quick="--n 8192 --seeds 2",
        paper="--n 32768 --seeds 20",
    ),
    "heteroscedastic": Experiment(
        "experiments.heteroscedastic:main",
        "noise that varies: sampling that knows it, that does not, and random",
        ("fig:dopplerHExperiment_data_pOpt_lob_rmse",),
        commands=HETEROSCEDASTIC,
        smoke="--start 16 --n 32 --n-inducing 8 --seeds 1",
        quick="--n 32768 --n-inducing 256 --seeds 4",
        paper="--n 32768 --seeds 20",
    ),
    "heteroscedastic_figure": Experiment(
        "experiments.heteroscedastic:figure_command", "four panels from the records of its arms"
    ),
    "inducing_density": Experiment(
        "experiments.inducing_density:main",
        "density and cost of inducing points by method",
        smoke="--sizes 64 --m 16 --seeds 1",
        quick="--sizes 1000 --m 128 --seeds 1",
        paper="",
    ),
    "inducing_errors": Experiment(
        "experiments.inducing_errors:main",
        "errors with default inducing points and k-means",
        commands=RECORD + " --data {data}",
        smoke="--n 64 --names volcano --seeds 1",
        quick="--n 500 --seeds 1",
        paper="",
    ),
    "inducing_places": Experiment(
        "experiments.inducing_places:main",
        "where inducing points lie",
        ("fig:dopplerExperiment_IPdistribution_test_vs_opt",),
        commands=FIGURE,
        smoke="--n 64 --m 8 --n-inducing 16",
        quick="",
        paper="",
    ),
    "inducing_points": Experiment(
        "experiments.inducing_points:main",
        "how many inducing points, and where",
        ("fig:dopplerExperiment_varyingIPstrategies",),
        commands=FIGURE,
        smoke="--n 64 --sizes 8,16 --n-inducing 16 --seeds 1",
        quick="--n 4096 --sizes 32,64,128,256 --n-inducing 512 --seeds 1",
        paper="--n 32768 --seeds 20",
    ),
    "local_polynomials": Experiment(
        "experiments.local_polynomials:main",
        "local polynomials beside the mixture: estimates and learning curves",
        (
            "fig:dopplerExperiment_bandwidths_optDensities_LPSvsGPR",
            "fig:dopplerExperiment_LPSOpt_Vs_GPROpt_alternative",
        ),
        commands=RECORD + " --figures {folder}/figures",
        smoke="--start 16 --n 32 --candidates 64 --seeds 2",
        quick="--n 2048 --seeds 4",
        paper="--n 32768 --seeds 20 --candidates 32768",
    ),
    "malonaldehyde": Experiment(
        "experiments.malonaldehyde:main",
        "force fields: random and active configurations",
        (
            "fig:malonMD_overview",
            "fig:malonMDAnisotropicBandwidthsVisualization_cropped",
            "fig:malonMD_IsoVsAniVsMoEVsActivePerformance_pMD_rmse_withLogBox",
            "fig:malonMD_IsoVsAniVsMoEVsActivePerformance_pUnif_rmse_withLogBox",
            "fig:malonMDestimates_testUnif_lob_lfc_pOpt_contour",
        ),
        commands=MALONALDEHYDE,
        smoke="{data}/rmd17_malonaldehyde_9633.npz --sizes 12,24 --seeds 1 --test-density pool",
        quick="{data}/malonaldehyde_gfn2_500K.npz --sizes 64,128 --seeds 2 --test-density pool",
        paper="{data}/malonaldehyde_gfn2_500K.npz --sizes 512,1024,2048 --seeds 5",
    ),
    "malonaldehyde_distances": Experiment(
        "experiments.malonaldehyde_distances:main",
        "how near spread configurations come to others",
        commands="{name} {data}/malonaldehyde_gfn2_500K.npz {options} --output {folder}/malonaldehyde/distances.json",
        quick="--n 256 --seeds 1",
        paper="",
    ),
    "malonaldehyde_gate": Experiment(
        "experiments.malonaldehyde_gate:main",
        "force fields: the ordinal and the paper's softmax gate",
        commands=MALONALDEHYDE_GATE,
        smoke="{data}/rmd17_malonaldehyde_9633.npz --sizes 12,24 --gate-labels 40 --max-epochs 5 --seeds 1",
        quick="{data}/malonaldehyde_gfn2_500K.npz --sizes 64,128 --gate-labels 2048 --gate-inducing 256 --seeds 2",
        paper="{data}/malonaldehyde_gfn2_500K.npz --sizes 512,1024,2048 --seeds 5",
    ),
    "malonaldehyde_report": Experiment("experiments.malonaldehyde_report:main", "relative sample sizes and figures"),
    "malonaldehyde_spread": Experiment(
        "experiments.malonaldehyde_spread:main",
        "random, drawn and spread configurations",
        commands="{name} {data}/malonaldehyde_gfn2_500K.npz {options} --output {folder}/malonaldehyde/spread.json",
        quick="--sizes 64,128 --seeds 1",
        paper="",
    ),
    "mogpu": Experiment(
        "experiments.mogpu:main",
        "uncertainty sampling, equidistant and superior sampling",
        ("fig:dopplerExperiment_SABER_EquiVsUncertaintyVsPOpt2",),
        commands=FIGURE,
        smoke="--sizes 32,64 --gate-labels 640 --n-inducing 16 --seeds 1",
        quick="--n-inducing 256 --seeds 4",
        paper="--seeds 20",
    ),
    "no_penalty": Experiment(
        "experiments.no_penalty:main",
        "active learning without a penalty on small bandwidths",
        ("fig:dopplerExperiment_noBWPen_dataset_LOB",),
        commands=FIGURE,
        smoke="--start 16 --n 32 --n-inducing 8 --max-epochs 2 --seeds 1",
        quick="--seeds 4",
        paper="--seeds 20",
    ),
    "mesh": Experiment(
        "experiments.mesh.comparison:main",
        "grids of a flow: by local complexity, as solvers do, uniform",
        commands="mesh {data}/thermal_cavity_098.npz {options} --output {folder}/mesh.json "
        "--figure {folder}/figures/mesh.png",
        smoke="--budgets 64,128 --labels 32 --seeds 1",
        quick="--seeds 1",
        paper="--seeds 5",
    ),
    "noise": Experiment(
        "experiments.noise:main",
        "noise estimates compared with held-out replicates",
        commands="{name} {data}/ato.npz {options} --output {folder}/noise_ato.json",
        smoke="--n 30 --replicates 2 --n-inducing 16 --seeds 1",
        quick="--n 300 --seeds 1",
        paper="--n 1000 --seeds 4",
    ),
    "other_models": Experiment(
        "experiments.other_models:main",
        "forest, RBF network, kernel ridge on active labels",
        commands=FIGURE,
        smoke="--n 128 --seeds 1",
        quick="--n 1024 --seeds 2",
        paper="--n 4096 --seeds 16",
    ),
    "patch_size": Experiment(
        "experiments.patch_size:main",
        "how small a patch is found with how many labels",
        commands=FIGURE,
        smoke="--sizes 30 --widths 0.2 --seeds 1",
        quick="--seeds 1",
        paper="--seeds 3",
    ),
    "patches": Experiment(
        "experiments.patch_size:named",
        "errors and noise of several patches",
        smoke="--sizes 30 --names patch2 --seeds 1",
        quick="--sizes 200 --seeds 2",
        paper="--seeds 10",
    ),
    "peers": Experiment(
        "experiments.peers.campaigns:main",
        "lobal and its competitors on many problems",
        commands=PEERS,
        quick="--half chirp1,peaks2 --sizes few --seeds 2",
        paper="--half report",
    ),
    "peers_calibration": Experiment("experiments.peers.calibration:main", "expected beside measured savings"),
    "peers_protocol": Experiment("experiments.peers.protocol:main", "the same by the protocol of bmdal-reg"),
    "peers_report": Experiment("experiments.peers.report:main", "tables and curves of that comparison"),
    "pools": Experiment(
        "experiments.pools:main",
        "active and random sampling on a data file or a stationary control",
        commands="pools stationary {options} --output {folder}/pool_stationary.json",
        smoke="--sizes 16,32 --n-inducing 16 --seeds 2",
        quick="--sizes 128,256 --seeds 2",
        paper="--sizes 128,256,512,1024 --seeds 16",
    ),
    "sample_size_estimators": Experiment(
        "experiments.sample_size_estimators:main", "rho of the Doppler function by several estimators"
    ),
    "several_outputs": Experiment(
        "experiments.several_outputs:main",
        "two outputs: a common design, designs for one, random points",
        smoke="--n 50 --seeds 1",
        quick="--n 100 --seeds 2",
        paper="--n 200 --seeds 5",
    ),
    "simulator": Experiment(
        "experiments.simulator:main",
        "named inputs of a simulator: the default learner and random points",
        quick="--seeds 1",
        paper="--seeds 50",
    ),
    "simulator_told": Experiment(
        "experiments.simulator_told:main",
        "the same with labels placed where the function changes most",
        smoke="--n 20 --seeds 1",
        quick="--seeds 3",
        paper="--seeds 30",
    ),
    "tuning": Experiment(
        "experiments.tuning:main",
        "errors and seconds with and without tuning",
        quick="--n 512 --seeds 1",
        paper="--n 2048 --seeds 4 --first-seed 20",
    ),
    "unchanged": Experiment("experiments.unchanged.comparison:main", "whether results are those of version 0.1.0"),
}
