# optimize: set up what that needs, then make the demo kernel faster.
# test: set up the rest, then run what a developer runs.   test-all: all tests.   check: what CI runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
COMPLETE := $(VENV)/.complete
# Of pyproject.toml: what the tests need beside what `optimize` does.
EXTRAS := dev,iree,llm,mcp,notebooks,plots,rag,ray,remote,triton

.PHONY: setup setup-all optimize test test-all lint check format docs clean

setup: $(READY)

setup-all: $(COMPLETE)

# The CPU build of torch comes first: asked for by another package it would bring gigabytes of CUDA.
# A machine with a CUDA build of torch in its Python keeps it: make setup TORCH= VENV_OPTIONS=--system-site-packages
TORCH ?= torch
VENV_OPTIONS ?=
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV_OPTIONS) $(VENV)
	$(if $(TORCH),$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt $(TORCH))
	$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(COMPLETE): $(READY)
	$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@# Type checkers and import-linter do not follow editable installs; a link on their path they do.
	@mkdir -p $(VENV)/link && ln -sfn "$(CURDIR)" $(VENV)/link/kernelwright
	@# Tests start many processes, and where PYTHONDONTWRITEBYTECODE is set each would compile what it imports.
	$(BIN)/python -m compileall -q -j 2 -x '/(\.venv|tests|corpus/examples)/' .
	@touch $@

optimize: $(READY)
	$(BIN)/optimize --kernel level1/1_94.py --target-speedup 1.3

# Tests wait for processes that they start: one worker more than CI has cores.
WORKERS ?= 3
PYTEST := $(BIN)/pytest -q -n $(WORKERS) --dist worksteal

test: $(COMPLETE)
	$(PYTEST) -m "not slow"

# Tests that wait for a measured time can fail where other work disturbs the machine: failures run again, without others
# beside them. A fault fails twice.
test-all: $(COMPLETE)
	$(PYTEST) || $(BIN)/pytest -q --last-failed --last-failed-no-failures none --maxfail 3

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

docs: $(READY)
	$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV)
