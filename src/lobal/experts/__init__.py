"""Gaussian processes that differ in their bandwidth only, as one batched tensor with the expert first.

Start with `interface.py`.

- `interface.py`: the interface `Experts`, the shared hyperparameters
- `svgp.py`: sparse variational experts, their predictions and their bound
- `fitc.py`: sparse experts in closed form (FITC)
- `exact.py`: exact experts, groups of neighbouring labels
- `leave_one_out.py`: predictions of every label from the others, in closed form
- `nearest.py`: the same from a few neighbours of the label alone
- `global_expert.py`: one Gaussian process by marginal likelihood, from which training starts
- `column_groups.py`: columns that share one width, such as the levels of a category
- `features.py`: features of the training inputs, stored or recomputed in parts
"""
