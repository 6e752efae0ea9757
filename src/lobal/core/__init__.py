"""Arrays, formulas, densities and files that every other room uses; imports no other room.

Start with `superior_density.py`, the paper on one page.

- `superior_density.py`: local bandwidth, complexity, superior density, inducing-point target, sample sizes
- `density.py`: density estimates, equal norm on a pool, importance weights, intrinsic dimension
- `density_columns.py`: the density of every column by itself, right at its edges
- `kernels.py`: distances, Gaussian and Matérn kernels, whitened features
- `linalg.py`: linear algebra: Cholesky factors with jitter, triangular systems
- `comparison.py`: "better by k standard errors", the one rule by which alternatives are compared
- `dataset.py`: labelled data as the models see them
- `arrays.py`, `checks.py`: shape aliases, device, memory-mapped arrays, checks of arrays and of single values
- `tables.py`: tables in files: `csv_text.py`, `workbooks.py` and `parquet.py` by format
- `table_shape.py`: what is wrong with the header of a table, or with its numbers of cells
- `dialects.py`, `numerals.py`: separators, decimal marks and encodings; numbers as people type them
- `laboratory.py`, `identity.py`: labels, inputs and identifiers of tables, with what people write beside numbers
- `archives.py`: arrays in npz files
- `files.py`: saving and loading without pickle, atomic writes, regular files only
- `schema.py`, `stored_tensors.py`: what JSON and tensors read from files must be
- `real_numbers.py`: what users pass as numbers; masked values, dates and complex numbers are none
- `units.py`: offset and scale of columns and labels, so that neither costs digits
- `variables.py`, `expressions.py`: named variables of a search space, and constraints over them as text
- `interrupts.py`: blocks that Ctrl-C does not cut in two
- `presets.py`: one word that stands for several options of a class
- `doppler.py`: the Doppler function of the paper's experiments and of `lobal demo`
- `status.py`: the progress line on the terminal
- `versions.py`: versions of the packages that results depend on
"""
