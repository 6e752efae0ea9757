"""The default engine: experts in closed form, and an ordinal gate fitted to their leave-one-out predictions.

Start with `training.py`, one round of the training, and `gate_fit.py`, the fit of the gate.

- `engine.py`, `settings.py`: the options `lobal.Analytic`, and the settings they become
- `fit.py`, `sparse.py`, `exact.py`: from labelled data to a fitted mixture, on sparse or exact experts
- `preparation.py`: what both need: weighted points, candidate gates, a longer ladder
- `training.py`: utilities of the experts, gate, noise
- `gate_fit.py`: the objective of the ordinal gate and Newton's method
- `gate_choice.py`: how wide the gate's kernel is, and by which measure of the experts it is fitted
- `start_choice.py`: whether what the global expert takes for noise is structure
- `ruler.py`: local bandwidths, by predictions of labels from their neighbours
- `held_out.py`: labels predicted from the others, tuned without them
- `tuning.py`: price of leverage and lambda_G by cross-validation
"""
