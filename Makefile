# Every target works as the first command on a fresh clone: it makes .venv and installs the pinned packages.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Threads that spin while they wait take the other core away from whoever needs it.
export OMP_WAIT_POLICY ?= passive
# Figures are drawn into files, never on a screen.
export MPLBACKEND ?= agg

.PHONY: setup demo test lint types docs bench results picture clean

setup: $(VENV)/.installed

KERNELS := $(wildcard hatch_build.py src/punn/kernels/*.[ch])
$(VENV)/.installed: pyproject.toml constraints.txt $(KERNELS)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "punn needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/python examples/demo.py

test: lint types
	$(BIN)/pytest --numprocesses 2

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

# The site, in site/: open site/index.html. The variable silences news about mkdocs itself.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

bench: setup
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.accuracy

# The picture of the README.
picture: setup
	$(BIN)/python examples/picture.py docs/figures/picture.png

# The page of results, and the README's short form of it, from the files of `punn reproduce`.
results: setup
	$(BIN)/python -m punn.experiments.results

clean:
	rm -rf $(VENV) build dist demo site .mypy_cache .pytest_cache .ruff_cache .hypothesis
