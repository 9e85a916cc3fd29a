VENV ?= .venv
PYTHON3 ?= python3
OLDEST := .venv-oldest
PYTHON := $(VENV)/bin/python
export TF_CPP_MIN_LOG_LEVEL ?= 3
# Tests start many processes, which need not compile all of it anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo bench bench-quick bench-rules test test-deep test-oldest lint types unit clean

help:             ## Show the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

$(VENV)/.installed: pyproject.toml
	$(PYTHON3) -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --upgrade "pip>=25.1"
	@# Of what is installed one module in three is imported; those are compiled then.
	$(PYTHON) -m pip install --quiet --no-compile --editable ".[demo]" --group dev
	@touch $@

demo: $(VENV)/.installed   ## Train on real photographs as a newcomer writes it, then with autopipe.
	$(PYTHON) examples/flowers.py

bench: $(VENV)/.installed   ## Measure every pipeline against what a user would write instead; writes RESULTS.md.
	$(PYTHON) -m benchmarks --output benchmarks/results --report RESULTS.md

bench-quick: $(VENV)/.installed   ## The same in under 5 minutes, without tuning; writes into build/benchmarks.
	$(PYTHON) -m benchmarks --quick

bench-rules: $(VENV)/.installed   ## What each rule buys by itself; writes benchmarks/rules/RESULTS.md.
	$(PYTHON) -m benchmarks.rules --report benchmarks/rules/RESULTS.md

test: lint types unit      ## Everything that must pass before a commit.

lint: $(VENV)/.installed   ## Style and imports.
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(VENV)/.installed  ## mypy --strict on the copy that ships.
	rm -rf build/lib build/bdist.* build/typecheck
	$(PYTHON) -m pip install --quiet --no-deps --no-build-isolation --target build/typecheck .
	cd build/typecheck && ../../$(VENV)/bin/mypy --strict --config-file ../../pyproject.toml -p autopipe

unit: $(VENV)/.installed   ## The tests alone; what others' work spoils for the clock is judged anew.
	$(VENV)/bin/pytest -n 2 --dist worksteal -m "not timed and not deep"
	$(VENV)/bin/pytest $$(grep -rl --include="*.py" mark.timed tests) -m "timed and not deep" --reruns 2

test-deep: $(VENV)/.installed   ## Every case, and every rule on thousands of random pipelines; takes about 20 minutes.
	$(VENV)/bin/pytest -n 2 --dist worksteal -m "deep and not timed"
	$(VENV)/bin/pytest -m "deep and timed" --reruns 2
	$(VENV)/bin/pytest -n 2 --dist worksteal tests/properties --hypothesis-profile=deep --timeout=7200

test-oldest:      ## The tests with the oldest TensorFlow, Keras and others that are said to work.
	$(PYTHON3) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install --quiet --upgrade "pip>=25.1"
	$(OLDEST)/bin/pip install --quiet --editable ".[demo]" --group dev --constraint tests/oldest.txt
	$(OLDEST)/bin/pytest -n 2 --dist worksteal -m "not timed and not deep"

clean:            ## Remove what the other targets made.
	rm -rf $(VENV) $(OLDEST) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
