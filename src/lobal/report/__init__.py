"""Figures, tables and web pages of models and campaigns; the only room that imports matplotlib.

Start with `html.py`, which assembles the page of a campaign.

- `html.py`: the page of a campaign, self-contained
- `campaign_figures.py`: learning curves, and where labels went, for any number of input columns
- `figures.py`: a fitted model of one input column: prediction, gate, local bandwidth, densities
- `savings.py`: labels saved by active learning, measured or expected
"""
