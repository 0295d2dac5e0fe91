# `make help` lists what there is. Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
SOAK_REPEAT ?= 1
# Tests write and sync many small files; a file system in memory, where it is large enough, halves the waiting.
MEMORY := $(shell [ "$$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)" -gt 6000000 ] 2>/dev/null && echo /dev/shm)
export OMP_NUM_THREADS := 1
# Hundreds of short processes start in the tests: each would compile all that it imports again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install train test slow check lint fix bench bench-peers soak gpu docs clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: expdb needs Python 3.11 or newer"; echo "hint: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
		-e '.[train,dev]'
	@touch $(STAMP)

install: $(STAMP) ## make .venv with expdb, torch and the tools

train: $(STAMP) ## train baseline and exp01, then compare them (about two minutes)
	$(BIN)/python train.py +exp=baseline
	$(BIN)/python train.py +exp=exp01
	$(BIN)/expdb compare baseline exp01

PYTEST = $(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(STAMP) ## run the tests of every part (under 4 minutes on 2 cores)
	$(PYTEST) -m "not slow and not soak and not gpu"

slow: $(STAMP) ## run the rest of what CI runs: kills, many processes, whole trainings
	$(PYTEST) -m "slow and not soak and not gpu"

lint: $(STAMP) ## formatting, style, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test slow ## all that must pass before a commit: what CI runs

fix: $(STAMP) ## format, and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## measure expdb, references and installed peers, print ratios (no test depends on a clock)
	$(BIN)/python -m bench $(BENCH)

PEERS := $(basename $(notdir $(wildcard bench/requirements/*.txt)))

bench-peers: $(PEERS:%=.bench/%/.installed) ## make .bench/<peer> for each tracker that is compared (2.4 GB)

.bench/%/.installed: bench/requirements/%.txt
	$(PYTHON) -m venv .bench/$*
	.bench/$*/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

soak: $(STAMP) ## the long tests (SOAK=n: n times the examples; SOAK_REPEAT=n: n times in a row; TESTS=tests/faults)
	for round in $$(seq $(SOAK_REPEAT)); do \
		$(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/python -m pytest -n $(WORKERS) -m soak $(TESTS) || exit 1; \
	done

gpu: $(STAMP) ## the tests that need a CUDA device
	$(BIN)/python -m pytest -m gpu

docs: $(STAMP) ## write docs/cli.md from the commands
	$(BIN)/python -m expdb.cli.reference docs/cli.md

clean: ## remove .venv and what tools left; runs/ stays
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
