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
# One thread a process: two processes that start two threads each spend a third of the time waiting for each other.
TESTS := -m pytest --numprocesses $(JOBS)
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: venv demo forcefield-demo test lowest newest check format docs-numbers mutants faults clean

venv: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	touch $(INSTALLED)

demo: venv
	$(BIN)/lobal demo --output out/demo

# A force field of malonaldehyde from one configuration, and beside it others of as many labels that were chosen otherwise.
# SEEDS=3 repeats it.
SEEDS ?= 1
forcefield-demo: venv
	$(BIN)/python -m experiments forcefield_grow examples/molecules/malonaldehyde.xyz --seeds $(SEEDS) --arms random,frames \
		--folder out/forcefield-demo --output out/forcefield-demo/errors.json

test: venv
	$(ONE_THREAD) $(BIN)/python $(TESTS)

# All tests with the lowest versions that pyproject.toml allows, which are listed first. Needs Python 3.11 or 3.12: some of
# these versions have no wheels for later ones.
lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python -m pip list --disable-pip-version-check
	$(ONE_THREAD) $(LOWEST)/bin/python $(TESTS)

$(LOWEST)/.installed: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt --editable '.[test]'
	touch $@

# All tests with the newest versions that the interpreter can have, which are listed first. They change without notice, so the
# environment is brought up to date at every call.
newest:
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager '$(TORCH)' --editable '.[test]'
	$(NEWEST)/bin/python -m pip list --disable-pip-version-check
	$(ONE_THREAD) $(NEWEST)/bin/python $(TESTS)

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
# about twenty minutes, and is not part of check.
faults: venv
	LOBAL_FAULTS=long LOBAL_FAULTS_RECORD=docs/results/faults.json $(ONE_THREAD) $(BIN)/python -m pytest tests/faults

clean:
	rm -rf $(VENV) .venv-lowest* .venv-newest* out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
