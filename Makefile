# Every check is one target that runs the same way everywhere. A fresh machine needs Python 3.11 or newer and a C compiler.
# EXTRAS names what is installed for the tests besides the core: make test EXTRAS=test,torch,onnx,notebook,dask

EXTRAS ?= test
WORKERS ?= auto
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
PACKAGES := einalg derive codegen

.DEFAULT_GOAL := help
# Compiled modules are kept: tests start many processes, and each would compile them again. `make clean` removes them.
unexport PYTHONDONTWRITEBYTECODE
.NOTPARALLEL:
.PHONY: help setup demo test coverage gpu-test gpu-tune browser lint format types docs docs-serve notebooks notebooks-store pictures readme bench nightly clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed-$(EXTRAS)  ## a virtual environment in .venv with einalg and EXTRAS (default: test)

demo: $(VENV)/.installed-demo  ## type a convolution, derive it, prove it, compile it, run it
	$(BIN)/python -m bench.demo

test: $(VENV)/.installed-$(EXTRAS)  ## all tests and documentation examples, in parallel
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -rs

coverage: $(VENV)/.installed-$(EXTRAS)  ## all tests, with the branches of the three packages that they take
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --cov=einalg --cov=derive --cov=codegen --cov-branch --cov-report=term:skip-covered

gpu-test: $(VENV)/.installed-$(EXTRAS) $(VENV)/.installed-cuda  ## the cases of the CUDA tests on the CUDA device of this machine, through PyCUDA
	$(BIN)/python -m pytest -m gpu tests/codegen tests/einalg/frontends/torch

gpu-tune: $(VENV)/.installed-$(EXTRAS) $(VENV)/.installed-cuda  ## how much faster a search makes CUDA kernels than the model's choice, on the CUDA device of this machine
	$(BIN)/python -m bench.tune --target cuda --json bench/results/gpu-tune.json

# A file of results that is asked for by PYTEST_ADDOPTS=--junitxml=tests.xml is tests-browser.xml here, beside that of the other tests.
browser: $(VENV)/.installed-$(EXTRAS) $(VENV)/.installed-browser  ## what notebooks show: a real JupyterLab on this machine in headless Chromium
	PYTEST_ADDOPTS="$(PYTEST_ADDOPTS:.xml=-browser.xml)" $(BIN)/python -m pytest -m "browser and not nightly" -rs tests/einalg/api/interactive tests/einalg/display

lint: $(VENV)/.installed-dev  ## style and formatting; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed-dev  ## put the style right where that is safe
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.installed-dev $(VENV)/.installed-$(EXTRAS)  ## the type checker
	$(BIN)/pyright

docs: $(VENV)/.installed-docs  ## the documentation as a site in build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs --quiet build --strict

docs-serve: $(VENV)/.installed-docs  ## the documentation at http://127.0.0.1:8000, made anew when a page changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

notebooks: $(VENV)/.installed-notebook $(VENV)/.installed-$(EXTRAS)  ## execute every notebook, and compare what it shows with what is stored
	$(BIN)/python -m pytest -n $(WORKERS) tests/docs/test_notebooks.py

notebooks-store: $(VENV)/.installed-notebook  ## execute every notebook, and store what it shows
	$(BIN)/python -m docs.notebooks

pictures: $(VENV)/.installed-browser  ## take the pictures of the documentation anew
	OMP_NUM_THREADS=1 $(BIN)/python -m docs.pictures

readme: $(VENV)/.installed-$(EXTRAS)  ## run the README's examples, and write what they print, and its figures
	OMP_NUM_THREADS=1 $(BIN)/python -m docs.readme

bench: $(VENV)/.installed-$(EXTRAS)  ## the language benchmark; the others are bench/*.py, one question each
	$(BIN)/python -m bench.language

nightly: $(VENV)/.installed-$(EXTRAS)  ## the long tests, and many more random examples
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-profile=nightly -m "not gpu"

clean:  ## remove the environment, caches and build products
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find $(PACKAGES) bench docs tests -name __pycache__ -prune -exec rm -rf {} +

# Once more after a failure: a registry that hiccups is not a broken project. Each of several extras is then installed for targets
# that need it alone.
comma := ,
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	@echo "install einalg[$*] into $(VENV)"
	@$(PIP) --editable ".[$*]" || { sleep 5; $(PIP) --editable ".[$*]"; }
	@touch $@ $(patsubst %,$(VENV)/.installed-%,$(subst $(comma), ,$*))

$(BIN)/python:
	@for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	    "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
	    echo "set up $(VENV) with $$("$$candidate" --version)"; \
	    "$$candidate" -m venv $(VENV) && exit 0; \
	    rm -rf $(VENV); exit 1; \
	done; echo "no Python 3.11 or newer found; name one: make PYTHON=/path/to/python3" >&2; exit 1
