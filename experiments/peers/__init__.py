"""lobal beside what people would use instead: the same start, the same sizes, the same models to judge the labels by.

- `problems.py`: the data sets and functions, in two halves: designs are settled on one, and reported on the other;
  `simulators.py`: functions of computer experiments
- `campaigns.py`: one campaign of one strategy on one of them, and the command that runs many
- `report.py`: tables and learning curves from the record
- `protocol.py`: the same by the protocol of bmdal-reg
- `calibration.py`: expected savings beside measured ones
"""
