# Set up, train, test and check. `make` alone lists the targets.
#
# The variables below can be given on the command line: make train CONFIG=configs/other.yaml

# What the virtual environments are made with: Python 3.11 or newer. The oldest dependencies need 3.11 or 3.12.
PYTHON ?= python3
# What `make train` trains.
CONFIG ?= configs/smoke.yaml
# How many processes share the tests.
WORKERS ?= 2
# More arguments for pytest, such as -k or a path.
PYTEST_ARGS ?=
# More arguments for the benchmarks, such as --quick.
BENCH_ARGS ?=
# More arguments for the installation of torch, such as an --index-url that has CPU builds.
TORCH_ARGS ?=

VENV := .venv
OLDEST_VENV := .venv-oldest
BENCH_VENV := .venv-bench
IN_VENV := $(VENV)/bin/python
IN_OLDEST := $(OLDEST_VENV)/bin/python
IN_BENCH := $(BENCH_VENV)/bin/python
READY := $(VENV)/.ready
OLDEST_READY := $(OLDEST_VENV)/.ready
# Libraries that the game is plugged into; each has an extra, a virtual environment and tests of its own.
PLUGS := ray torchrl tianshou
# Test files of the plugs that have others than test_<plug>.py alone.
TESTS_ray := tests/plugs/test_ray.py tests/plugs/test_rllib.py
BENCH_READY := $(BENCH_VENV)/.ready

# Every test process computes on one thread; more would only wait for each other.
PYTEST := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(IN_VENV) -m pytest -n $(WORKERS) --dist=loadfile
PYTEST_OLDEST := $(subst $(IN_VENV),$(IN_OLDEST),$(PYTEST))

CHECK_PYTHON := import sys; \
	sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")
LOW_ENDS := import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	wanted = project["dependencies"] + project["optional-dependencies"]["render"]; \
	print(*(line.split(",")[0].replace(">=", "==") for line in wanted))

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup train test test-slow test-boundscheck test-oldest test-plugs lint bench bench-peers clean distclean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with everything in it; the other targets do this when needed

train: $(READY) ## Train with CONFIG (configs/smoke.yaml)
	$(IN_VENV) train.py --config $(CONFIG)

test: $(READY) ## Run the tests
	$(PYTEST) $(PYTEST_ARGS)

test-slow: $(READY) ## Run the tests that take minutes
	$(PYTEST) -m slow $(PYTEST_ARGS)

test-boundscheck: $(READY) ## Run the tests with array bounds checked in compiled code
	NUMBA_BOUNDSCHECK=1 $(PYTEST) $(PYTEST_ARGS)

test-oldest: $(OLDEST_READY) ## Run the tests that need no training library with the oldest dependencies
	$(PYTEST_OLDEST) $(PYTEST_ARGS)

test-plugs: $(PLUGS:%=test-plug-%) ## Run the tests with each library that the game is plugged into

test-plug-%: .venv-%/.ready
	OMP_NUM_THREADS=1 .venv-$*/bin/python -m pytest $(or $(TESTS_$*),tests/plugs/test_$*.py) $(PYTEST_ARGS)

lint: $(READY) ## Check style, format and types
	$(IN_VENV) -m ruff check
	$(IN_VENV) -m ruff format --check
	$(IN_VENV) -m mypy

bench: $(READY) ## Measure speed; BENCH_ARGS such as --quick or --only kernel
	$(IN_VENV) -m benchmarks $(BENCH_ARGS)

bench-peers: $(BENCH_READY) ## Measure speed beside that of other libraries' games
	$(IN_BENCH) -m benchmarks $(BENCH_ARGS)

clean: ## Remove caches and build output; runs/ and the virtual environments stay
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .numba_cache
	find . -path './.venv*' -prune -o -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## Remove the virtual environments as well
	rm -rf $(VENV) $(OLDEST_VENV) $(BENCH_VENV) $(PLUGS:%=.venv-%)

# torch comes first: what depends on it then takes the build that is there.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c '$(CHECK_PYTHON)'
	$(PYTHON) -m venv $(VENV)
	$(IN_VENV) -m pip install --constraint constraints.txt $(TORCH_ARGS) torch
	$(IN_VENV) -m pip install --constraint constraints.txt --editable '.[render,train,dev]'
	@touch $@

# The low ends come from pyproject.toml, the test tools from constraints.txt.
$(OLDEST_READY): pyproject.toml constraints.txt
	@$(PYTHON) -c '$(CHECK_PYTHON)'
	$(PYTHON) -m venv $(OLDEST_VENV)
	$(IN_OLDEST) -m pip install --editable '.[render]' $$($(PYTHON) -c '$(LOW_ENDS)') \
		$$(grep -E '^(pytest|pytest-xdist|hypothesis)==' constraints.txt)
	@touch $@

# The other libraries bring packages that constraints.txt does not know, and what it knows stays as pinned.
$(BENCH_READY): pyproject.toml constraints.txt
	@$(PYTHON) -c '$(CHECK_PYTHON)'
	$(PYTHON) -m venv $(BENCH_VENV)
	$(IN_BENCH) -m pip install --constraint constraints.txt $(TORCH_ARGS) torch
	$(IN_BENCH) -m pip install --constraint constraints.txt --editable '.[render,train,bench]'
	@touch $@

# Otherwise make takes these for files in between, deletes them, and installs everything again the next time.
.PRECIOUS: .venv-%/.ready

# A library may want other versions than constraints.txt has; only torch and the test tools are as everywhere.
.venv-%/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c '$(CHECK_PYTHON)'
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install $$(grep -E '^torch==' constraints.txt)
	.venv-$*/bin/python -m pip install --editable '.[$*]' \
		$$(grep -E '^(torch|pytest|hypothesis)==' constraints.txt)
	@touch $@
