# Each target sets itself up from nothing and is fast the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test notebooks fuzz lint format clean

demo: $(READY)
	$(BIN)/mixseg demo --out demo

test: $(READY)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

# Three of them, on small data; `make test` executes the quickest.
notebooks: $(READY)
	MIXSEG_NOTEBOOKS=1 $(BIN)/python -m pytest -q tests/test_notebooks.py

N ?= 10000
SEED ?= 0

fuzz: $(READY)
	$(BIN)/python tests/fuzz/harness.py $(N) --seed $(SEED)

# Linux, with gcc; as root it fills a disk, too.
faults: $(READY)
	$(BIN)/python tests/faults/harness.py 50 --seed $(SEED)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The stamp is written last: an interrupted installation is repeated, a finished one is not.
$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@

# What runs with the package: a table for the docs, and a bill of materials for programs.
sbom: $(READY)
	$(BIN)/python benchmarks/dependencies.py sbom.json

clean:
	rm -rf $(VENV) build dist demo
