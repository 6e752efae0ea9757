"""The evidence: experiments of the paper and comparisons, none of which is part of the wheel.

`python -m experiments --list` lists them with the figures of the paper that they reproduce, `python -m experiments NAME
--help` shows the options of one, and `--scale smoke|quick|paper` sets them. Each writes a record (JSON, with command,
settings and versions) that an interrupted run resumes; figures are drawn from records. The records that the
documentation quotes are in `docs/results`, and `docs/reproduction.md` says what they tell about the paper.

Start with `doppler_active.py` and `repetitions.py`.

- `__main__.py`: the command line
- `registry.py`: the experiments, their figures in the paper and the options of their scales
- `repetitions.py`: repetitions over sizes and seeds, kept in one file
- `data_files.py`: data sets in `.npz` files
- `complexity_truth.py`: rank correlation of the estimated local complexity with that of known functions
- `density_edges.py`: errors of the density of a pool on known densities
- `deep_gp.py`: a deep Gaussian process on random, equidistant, superior and ALC labels
- `doppler.py`: the Doppler function with the paper's settings, random labels, single-scale GP
- `doppler_active.py`: active and random campaigns on the Doppler function, by the defaults and by the paper's scheme
- `doppler_curves.py`: table and learning curves from the files of both arms
- `sample_size_estimators.py`: the relative sample size from the same files, by several estimators
- `forcefield_grow.py`: force fields from one configuration, beside others of as many labels
- `equidistant.py`: equidistant against random inputs to 2^15 labels
- `greedy_points.py`: greedy inducing points of every expert
- `heteroscedastic.py`: noise that varies, known, taken as constant, and random sampling
- `inducing_density.py`, `inducing_errors.py`: methods of choosing inducing points in several columns
- `inducing_places.py`: where inducing points lie
- `inducing_points.py`: number and distribution of inducing points
- `local_polynomials.py`: local polynomials beside the mixture on the Doppler function
- `malonaldehyde.py`, `malonaldehyde_report.py`, `malonaldehyde_spread.py`: force fields of malonaldehyde
- `malonaldehyde_gate.py`: their ordinal gate and the paper's softmax gate
- `malonaldehyde_distances.py`: densities and distances of its spread configurations
- `mesh/`: grids of a flow by local complexity, as solvers refine them, and uniform ones
- `mogpu.py`: uncertainty sampling by MoGPU, equidistant and superior sampling
- `no_penalty.py`: active learning without a penalty on small bandwidths
- `noise.py`: estimated noise variance compared with replicates
- `other_models.py`, `rbf_network.py`: other models trained on active labels
- `patch_size.py`: how small a patch of fast oscillations is found with how many labels
- `peers/`: lobal beside other active learners on many problems
- `pools.py`: active and random sampling on measured data and on a stationary control
- `several_outputs.py`: two outputs, a common design beside designs for one of them and random points
- `simulator.py`: the default learner and random points on the simulator of the examples
- `simulator_told.py`: the same with labels placed where the function changes most
- `tuning.py`: errors and seconds with and without tuning
- `figures/`: figures that only the experiments need
"""
