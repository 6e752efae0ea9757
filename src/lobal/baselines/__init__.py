"""Competitors: designs that choose points by other criteria, and local polynomials, another model of the learner.

    ActiveLearner(space, draw="gsx")
    ActiveLearner(space, model=LocalPolynomials(order=1))

Start with `shortlist.py`: which candidates a design looks at, and what it does before there are labels. `active.draws`
knows the designs by name; packages are imported when a design is first used (`pip install 'lobal[baselines]'`).

- `shortlist.py`: what all designs share: the candidates to choose from, seeds, packages that are missing.
- `activeml.py`: scikit-activeml: `gsx` and `igs` (greedy sampling), `qbc` (query by committee), `kl` (KL divergence).
- `lcmd.py`: bmdal-reg: largest cluster maximum distance in the gradient features of a neural network.
- `qnipv.py`: BoTorch: the batch that lowers the integrated posterior variance of a Gaussian process most.
- `local_polynomial.py`: local polynomials as a surrogate: options, campaigns, files.
- `local_model.py`: local polynomials fitted to labels: predictions, local bandwidths, noise.
- `local_fit.py`: local polynomials under many bandwidths, as weights of the labels.
- `lepski.py`: Lepski's choice among the bandwidths.
- `uncertainty.py`: greatest variance, of one Gaussian process (`gp_variance`) or of the mixture (`mogpu`).
- `greedy_variance.py`: the points of greatest variance, thousands of them without a refit
- `deep_gp.py`: a deep Gaussian process of one input column, and active learning Cohn, neither of them a design.
- `deep_gp_sampling.py`, `deep_gp_layers.py`, `slice_sampling.py`: its Markov chains, its layers, steps of the chains.
"""
