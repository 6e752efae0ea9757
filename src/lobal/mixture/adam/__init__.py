"""The paper's engine: experts and gate trained jointly by Adam (Sec. 4.4).

Start with `training.py`.

- `engine.py`, `settings.py`: the options `lobal.Adam`, and the settings they become
- `fit.py`: from labelled data to a fitted mixture
- `training.py`: the loop over epochs and batches, with the schedules of learning rate and kappa
- `objective.py`, `gradients.py`: the objective, and its gradient in closed form for S = 0
- `responses.py`: what the training sees of sparse or exact experts
- `tuning.py`, `candidates.py`: hyperparameters by validation (Algorithm 2), and short trainings of candidates
"""
