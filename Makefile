# Everything runs in .venv, which is made on first use from Python 3.11+ alone.
# A stamp file stands for each set of packages, so that nobody waits for what is not needed: Spark is large.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
INSTALL := $(PIP) install --constraint constraints.txt
EDITABLE := $(INSTALL) --no-build-isolation --editable
MYPY_TARGETS := $(wildcard overlaymq tests benchmarks examples protos/generate.py)

.DEFAULT_GOAL := help
.PHONY: help test lint unit live soak demo bench protos clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: lint unit ## lint, types and tests

lint: $(VENV)/.dev $(VENV)/.spark ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(MYPY_TARGETS)

unit: $(VENV)/.dev $(VENV)/.spark
	$(BIN)/python -m pytest -n 2 --dist loadgroup

live: $(VENV)/.dev $(VENV)/.spark ## the long runs over several real processes
	$(BIN)/python -m pytest -m live --timeout 900

soak: $(VENV)/.dev ## faults by the thousand seeds, about half an hour on two cores; SOAK="--minutes 5" for less
	$(BIN)/python -m overlaymq.sim.soak $(SOAK)

demo: $(VENV)/.core $(VENV)/.spark ## see nodes find each other, topics delivered, and their traces analysed
	$(BIN)/python -m overlaymq.demo

bench: $(VENV)/.peers ## compare fan-out with other systems, then a busy application and an idle node
	$(BIN)/python -m benchmarks.fanout
	$(BIN)/python -m benchmarks.busy_application
	$(BIN)/python -m benchmarks.idle_node

protos: $(VENV)/.dev ## regenerate the protobuf code
	$(BIN)/python protos/generate.py

clean: ## remove the environment and all caches
	rm -rf $(VENV) artifacts build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "overlaymq needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3 ..." >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "Python's venv module is missing: install the package python3-venv" \
	    "(Debian, Ubuntu: apt install python3-venv)" >&2; \
	  exit 1; }
	@rm -rf $(VENV)
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing overlaymq into $(VENV)"
	@$(INSTALL) setuptools
	@$(EDITABLE) .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "installing the development tools"
	@$(EDITABLE) '.[dev]'
	@touch $@

# PySpark is a source package of half a gigabyte: about a minute, and only for what analyses traces.
$(VENV)/.spark: $(VENV)/.core
	@echo "installing Spark (456 MB to download)"
	@$(EDITABLE) '.[spark]'
	@touch $@

$(VENV)/.peers: $(VENV)/.core
	@echo "installing the systems to compare with"
	@$(EDITABLE) '.[peers]'
	@touch $@
