# Everything runs in .venv, which the first target that needs it creates.
PYTHON ?= python3
BASE ?= c7ea588
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core-installed
DEV := $(VENV)/.dev-installed
# One process more than cores: many tests wait for processes that they start. One thread for linear algebra: threads of
# several processes would wait for each other in loops (a tenth of the suite's time, and single tests took 20 times as long).
PYTEST = OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)') --dist worksteal

# Tests start many processes. Where Python is told to keep no bytecode, each of them would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-long test-labelstudio check kernels fuzz bench golden docs format clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "palda needs Python 3.11 or newer; point to one with: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(CORE): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(DEV): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(CORE)

demo: $(CORE)  ## the main job on simulated data, no files needed
	@$(BIN)/palda demo --force

check: $(DEV)  ## linter, types, import contracts
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Numba caches what it compiles. Compiling here takes place beside mypy, once instead of in every test process.
kernels: $(DEV)
	@$(BIN)/python -m tests.compile_kernels

test: $(DEV)  ## check, then every test but the long ones
	@$(MAKE) --no-print-directory --jobs 2 check kernels
	$(PYTEST)

test-fast: $(DEV)  ## quick tests: no browser, no Dask cluster, no guides, nothing slow
	$(PYTEST) -m 'not (browser or cluster or guide or slow or long)'

test-long: $(DEV)  ## the long tests alone
	$(PYTEST) -m long

test-labelstudio: $(DEV)  ## beside a real Label Studio, which is installed into build/labelstudio the first time
	$(BIN)/python -m pytest --numprocesses 0 -m labelstudio tests/labelstudio

CASES ?= 200000
SEED ?= 0

fuzz: $(DEV)  ## damaged files for every reader and loader: make fuzz CASES=200000 SEED=0
	$(BIN)/python -m tests.fuzz --cases $(CASES) --seed $(SEED)

bench: $(DEV)  ## side-by-side ratios against peers
	$(BIN)/python -m benchmarks

golden: $(CORE)  ## fits here against those of a commit, bit by bit: make golden BASE=<commit>
	$(BIN)/python -m benchmarks golden --base $(BASE)

docs: $(DEV)  ## the site, in docs/_build/html; every warning is an error
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet --doctree-dir docs/_build/doctrees docs docs/_build/html

format: $(DEV)  ## rewrite the sources in house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --quiet .

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
