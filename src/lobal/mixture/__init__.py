"""The model: experts of different bandwidths, a gate that weights them, and two engines that train both.

Start with `estimator.py` for users, `fit.py` for the wiring; the engines are in `analytic/` and `adam/`.

- `estimator.py`: `MixtureRegressor`, the scikit-learn estimator
- `options.py`, `checks.py`, `settings.py`: from the options of a user to checked settings
- `data.py`, `units.py`: labels for training, validation and the gate; units of the labels
- `fit.py`, `start.py`: from labelled data to a fitted mixture; global expert and inducing points at the start
- `complete_fit.py`: all that the estimator keeps of a fit: mixture, smoothness, tuning, history, noise
- `engine.py`, `engines.py`: what an engine consists of, and the engines by name
- `model.py`, `gate.py`: the mixture (prediction, uncertainty, local bandwidth) and its gates
- `prediction.py`: predictions in units of the labels: standard deviation, covariance, paths
- `calibration.py`: scores of labels predicted from the others, which standard deviations and intervals rest on
- `leave_one_out.py`: leave-one-out predictions and residuals of a mixture
- `ladder.py`: the ladder of bandwidths, extended and trimmed
- `noise.py`, `heavy_tails.py`: noise that varies over the inputs; Student's noise
- `outliers.py`, `mixed_units.py`: labels that contradict the others, and many of them in other units
- `robust_process.py`: predictions that outliers do not distort, by which they are found
- `smoothness.py`: the smoothness by a comparison of kernels
- `tuning_record.py`: the record of how settings were chosen before a fit; `tuned_params.py`: these as options
- `presets.py`: the paper's mixture in one word
- `storage.py`: fitted models in files; `stored_checks.py`, `stored_options.py`: what such a file must hold
- `progress.py`: training history and progress line
"""
