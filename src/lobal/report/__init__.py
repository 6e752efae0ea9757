"""Figures, tables and web pages of models and campaigns; the only room that imports matplotlib.

Start with `html.py`, which assembles the page of a campaign.

- `html.py`: the page of a campaign, self-contained
- `blocks.py`: the parts of a page: texts, tables, figures, and its style
- `overview.py`: where a campaign stands, in words
- `batch.py`: the points to label next, with what is known about each
- `error_curve.py`: the error over the rounds
- `model_sections.py`: what the page says about the model of one output
- `left_out.py`: prediction against measurement, and calibration
- `dependence.py`: partial dependence of prediction and complexity
- `maps.py`: complexity, prediction and labels over two variables
- `line.py`: the model of one input column, for the page
- `failures.py`: where labels failed
- `record.py`: history, settings and versions
- `variables.py`: inputs by name; a category of several columns is one variable
- `axes.py`: axes and colour scales that figures share
- `campaign_figures.py`: learning curves, and where labels went, for any number of input columns
- `figures.py`: a fitted model of one input column: prediction, gate, local bandwidth, densities
- `savings.py`: labels saved by active learning, measured or expected
- `grown.py`: the page of a force field that simulated its own pools; `grown_campaign.py`: what it shows
- `growth_rounds.py`, `torsion_maps.py`, `constant_energy.py`: its table and curve, its maps, its run without a bath
- `labelled_molecules.py`, with `molecule_viewer.js`: its view of the molecule
"""
