# optimize: set up what that needs, then make the demo kernel faster.
# test: set up the rest, then run what a developer runs.   test-all: all tests.   check: what CI runs.
# test-gpu: the tests that need a GPU.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
COMPLETE := $(VENV)/.complete
# Of pyproject.toml: what the tests need beside what `optimize` does.
EXTRAS := dev,iree,llm,mcp,notebooks,plots,rag,ray,remote,triton

.PHONY: setup setup-all optimize test test-all test-gpu lint check format docs lock clean

setup: $(READY)

setup-all: $(COMPLETE)

# Packages are those of requirements/, by their hashes; only torch and Triton have a build a machine, of one version.
# The CPU build of torch comes before kernelwright: asked for by another package it would bring gigabytes of CUDA.
# A machine with a CUDA build of torch in its Python keeps it: make setup TORCH= VENV_OPTIONS=--system-site-packages
TORCH ?= torch
VENV_OPTIONS ?=
INSTALL := $(BIN)/pip install -qq --disable-pip-version-check --no-compile
LOCKED := $(INSTALL) --no-deps --require-hashes -r
# What is built is built with the locked setuptools.
CHECKED := $(INSTALL) --no-build-isolation -c constraints.txt
# pip would compile on one core, with the tests of packages and 45 MB of models, of which next to none is imported. A few
# files are not for this version of Python.
COMPILED := $(BIN)/python -m compileall -qq -j 0 -x 'site-packages/.*(/tests?/|transformers/models/)' $(VENV)/lib || true
$(READY): pyproject.toml constraints.txt requirements/setup.txt
	$(PYTHON) -m venv $(VENV_OPTIONS) $(VENV)
	$(LOCKED) requirements/setup.txt
	$(if $(TORCH),$(CHECKED) $(TORCH))
	$(CHECKED) -e .
	$(COMPILED)
	@touch $@

$(COMPLETE): $(READY) requirements/all.txt
	$(LOCKED) requirements/all.txt
	$(CHECKED) -e '.[$(EXTRAS)]'
	$(COMPILED)
	@# Type checkers and import-linter do not follow editable installs; a link on their path they do.
	@mkdir -p $(VENV)/link && ln -sfn "$(CURDIR)" $(VENV)/link/kernelwright
	@# Tests start many processes, and where PYTHONDONTWRITEBYTECODE is set each would compile what it imports.
	$(BIN)/python -m compileall -q -j 0 -x '/(\.venv|tests|corpus/examples)/' .
	@touch $@

optimize: $(READY)
	$(BIN)/optimize level1/1_94.py --target-speedup 1.3

# Tests wait for processes that they start: one worker more than CI has cores.
WORKERS ?= 3
PYTEST := $(BIN)/pytest -q -n $(WORKERS) --dist worksteal

test: $(COMPLETE)
	$(PYTEST) -m "not slow"

# Tests that wait for a measured time can fail where other work disturbs the machine: failures run again, without others
# beside them. A fault fails twice.
test-all: $(COMPLETE)
	$(PYTEST) || $(BIN)/pytest -q --last-failed --last-failed-no-failures none --maxfail 3

# On a machine with GPUs: first side by side, then those that need one alone. With PASSED=FILE a run that was broken off
# goes on with what has not passed. Another environment's pytest: make -o .venv/.complete test-gpu BIN=/its/folder/bin
# Ten workers filled the memory of an H100 with 80 GB. `--passed=` with `=`, or pytest takes FILE for the root of the tests.
GPU_WORKERS ?= $(shell expr $$(nproc) / 2)
PASSED ?=
ON_GPU := $(BIN)/pytest -q --durations 20 $(if $(PASSED),--passed=$(PASSED))
test-gpu: $(COMPLETE)
	$(ON_GPU) -n $(GPU_WORKERS) --dist worksteal -m "gpu and not gpu_alone"; side_by_side=$$?; \
	$(ON_GPU) -m gpu_alone && exit $$side_by_side

lint: $(COMPLETE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/vulture
	cd $(VENV)/link && MYPYPATH="$(CURDIR)/$(VENV)/link" "$(CURDIR)/$(BIN)/mypy" --config-file "$(CURDIR)/pyproject.toml" -p kernelwright
	PYTHONPATH=$(VENV)/link $(BIN)/lint-imports

check: lint test-all

format: $(COMPLETE)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(COMPLETE)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# constraints.txt and requirements/ from pyproject.toml: the versions there are kept where they can be, or
# make lock UPGRADE=--upgrade. Where torch's CPU build is not on the index, UV_FIND_LINKS or UV_INDEX says where it is.
UPGRADE ?=
COMPILE := $(BIN)/uv pip compile -q --python $(BIN)/python --no-annotate --custom-compile-command 'make lock'
HASHED := $(COMPILE) -c constraints.txt --generate-hashes --no-emit-package torch --no-emit-package triton
lock: $(READY)
	$(CHECKED) uv
	$(COMPILE) $(UPGRADE) --all-extras pyproject.toml requirements/lock.in -o constraints.txt
	sed -i 's/+cpu$$//' constraints.txt
	$(HASHED) pyproject.toml requirements/lock.in -o requirements/setup.txt
	$(HASHED) --all-extras pyproject.toml requirements/lock.in -o requirements/all.txt

clean:
	rm -rf $(VENV)
