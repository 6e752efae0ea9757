# Every target sets itself up on a fresh machine that has Python (3.11 or newer) and make.
PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# An environment for every interpreter: make newest PYTHON=python3.13 leaves that of another one alone.
LOWEST := .venv-lowest-$(notdir $(PYTHON))
NEWEST := .venv-newest-$(notdir $(PYTHON))
# torch of the newest environment is that of constraints.txt: pip finds a CPU build of it where one is offered, while the newest
# wheels for Linux bring CUDA with them, gigabytes that the tests do not use. TORCH=torch installs the newest.
TORCH ?= $(shell grep '^torch==' constraints.txt)

.PHONY: venv demo test lowest newest check format docs-numbers mutants faults clean

venv: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	touch $(INSTALLED)

demo: venv
	$(BIN)/lobal demo --output out/demo

# One thread a process: two processes that start two threads each spend a third of the time waiting for each other.
test: venv
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(JOBS)

# The tests with the lowest versions that pyproject.toml allows. Needs Python 3.11 or 3.12: some of these versions have no
# wheels for later ones.
lowest: $(LOWEST)/.installed
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest --numprocesses $(JOBS)

$(LOWEST)/.installed: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt --editable '.[test]'
	touch $@

# The tests with the newest versions. They change without notice, so the environment is brought up to date at every call.
newest:
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager '$(TORCH)' --editable '.[test]'
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(NEWEST)/bin/python -m pytest --numprocesses $(JOBS)

check: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) test

format: venv
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Writes the numbers of docs/results into README.md and docs; a test fails where they differ.
docs-numbers: venv
	$(BIN)/python -m docs.numbers

# Prints changes of the code that no test detects; takes about twenty minutes on two cores, and is not part of check.
mutants: venv
	$(BIN)/python -m benchmarks.mutants --number 100 --seed 0 --jobs 2

# Kills, power cuts, full disks, interrupts and damaged files at every place, with counts; the tests try some of each. Takes
# about half an hour, and is not part of check.
faults: venv
	LOBAL_FAULTS=long LOBAL_FAULTS_RECORD=docs/results/faults.json OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest tests/faults

clean:
	rm -rf $(VENV) .venv-lowest* .venv-newest* out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
