# Two commands set everything up: `make demo` and `make test`. Both build their own virtual environment.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.installed

.PHONY: demo test test-all lint bench clean help

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(READY)  ## group-constrained sparse regression on a simulated market: table and picture
	$(BIN)/python examples/demo.py

test: $(READY) lint  ## lint, type check and the tests, from zero: five minutes on two cores
	$(BIN)/python -m pytest -n auto -m "not slow"

test-all: $(READY) lint  ## the same with the tests marked slow: a quarter of an hour
	$(BIN)/python -m pytest -n auto

lint: $(READY)  ## style, types, directions of imports, unused code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/vulture

bench: $(READY)  ## every benchmark; ratios measured in one run
	$(BIN)/python -m benchmarks

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
