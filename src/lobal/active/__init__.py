"""The loop: which points to label next, asked and told (Algorithm 1).

Start with `learner.py`: `ActiveLearner` wires everything else and names no model.

- `spaces.py`: `Pool`, `Box` and the abstract `Space`: where labels can be asked for.
- `candidates.py`: what a space turns into: points to choose from, densities at them, how points are named and located.
- `search_space.py`: `SearchSpace`, a space of named variables; `search_candidates.py`: its candidates; `region.py`: its
  constraints; `feasible_points.py`: points that fulfil them; `recognition.py`: which points are meant by rounded ones;
  `pending_points.py`: which pending ones, also in a box;
  `frames.py`: tables in and out; `space_fields.py`: spaces as JSON; `space_model.py`: a model with its variables.
- `surrogate.py`: the abstract `Surrogate` and `FittedSurrogate`: what a learner needs of a model.
- `mixture_surrogate.py`: `MixtureRegressor` as a surrogate; `shrinking.py`: how few inducing points are enough.
- `outputs.py`: what is measured at a point, one number, several or a curve; `output_surrogate.py`: a mixture for each
  of several outputs as one surrogate; `output_models.py`: what that has fitted.
- `knowledge.py`: what follows from the labels so far, each computed once; `scoring.py`: a model at all candidates.
- `extreme_labels.py`: labels that no model can be fitted with, in words.
- `expected_savings.py`: what following the local complexity is expected to save, with its standard error.
- `next_density.py`: the density of the next batch, so that all labels together follow the superior density.
- `draws.py`: draws from that density; `spread.py`: points that follow it evenly; `integrated_variance.py`: points by
  the variance of the model, and when which of the two is the default.
- `next_step.py`: one pass through the loop, from what is known to the next points.
- `oracles.py`: calls of somebody else's program, which may fail, hang or be killed; `labelling.py`: labels of pending
  points from them; `running.py`: asking and labelling until a size is reached; `stopping.py`: rules that end a run.
- `external_program.py`: an oracle that runs a program, JSON in and JSON out.
- `reasons.py`: why each point is worth a label; `summary.py`: where a campaign stands, in words; `learning_curve.py`:
  how the error falls.
- `settings.py`: what a learner is told once, checked.
- `campaign/`: what is kept of a campaign, in memory and on disk.
"""
