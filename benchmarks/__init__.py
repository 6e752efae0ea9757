"""Seconds and bytes, none of which is part of the wheel. Run them on a machine that does nothing else meanwhile.

`python -m benchmarks` times both engines on the Doppler function, compared with a stock SVGP and with the least time
that the machine allows; `docs/performance.md` explains and quotes the numbers. Start with `__main__.py`.

- `__main__.py`: `python -m benchmarks`, its options, what is measured and recorded
- `timing.py`: one timed fit by each method
- `stages.py`: the stages of the analytic fit, their operations and bytes
- `measuring.py`: seconds, memory, and the rates of the machine
- `gpytorch_svgp.py`: a stock sparse Gaussian process and its training
- `regression.py`: test errors on data files, compared with a stock SVGP and an exact Gaussian process
- `calibration.py`: coverage and width of intervals, likelihoods and errors, compared with processes, forest, boosting
- `calibration_tables.py`: tables of that record
- `interval_models.py`: the models with intervals that it compares
- `large_pool.py`: seconds and memory of a campaign over a memory-mapped pool
- `mutants.py`: random changes of the code, and whether the tests detect them
- `md_step.py`: milliseconds of a step of molecular dynamics
- `sgdml_package.py`: force fields compared with the sgdml package
- `large_molecule.py`: seconds and memory of conjugate gradients for a large molecule, compared with the sgdml package
"""
