"""Whether lobal still computes what version 0.1.0 did, at revision 752a305.

`python -m experiments unchanged` runs fits and campaigns on generated data and compares predictions and chosen points
with the record in docs/results/unchanged. That record was written by the same cases under version 0.1.0; only the
functions in `calls.py` were other ones then, with that version's names (flat options of the model, a campaign class of
its own for molecules).

Campaigns over arrays are not among the cases any more: the density of a pool is estimated in another way since then.

- `cases.py`: the cases and their data, from NumPy's generators with fixed seeds.
- `calls.py`: the cases run by the present lobal.
- `comparison.py`: the table.

Everything runs on one thread of the CPU. Numbers are the same to the bit where machine, versions and order of
operations are those of the record. The record has every case's sensitivity: how much its results changed where labels
were changed by a relative 1e-15. A difference about as large may be rounding.
"""
