# Every target implies set-up. Needed beforehand: Python 3.11 or newer (with venv), git, make; for the
# tests with hostile programs bubblewrap, for those of the page chromium, else they are skipped, aloud.
PYTHON ?= python3
MODEL ?= smollm2-135m-instruct
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: setup setup-train setup-dev serve demo test check vllm clean

setup: .venv/.installed
setup-train: .venv/.installed-train
setup-dev: .venv/.installed-dev

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	touch $@

.venv/.installed-train: .venv/.installed
	$(PIP) --editable '.[train]'
	touch $@

.venv/.installed-dev: .venv/.installed
	$(PIP) --editable '.[dev]'
	touch $@

serve: setup
	$(BIN)/leeway serve --model $(MODEL)

demo: setup
	$(BIN)/leeway demo --model $(MODEL)

test: setup-dev
	$(BIN)/leeway models pull $(MODEL) || echo "no model: the tests that need it will be skipped, aloud"
	$(BIN)/python -m pytest -n 2

check: setup-dev
	$(BIN)/ruff format --check src tests
	$(BIN)/ruff check src tests
	$(BIN)/mypy
	$(BIN)/lint-imports

vllm:
	$$(scripts/vllm_env) -m pytest -p no:xdist -o timeout=1800 tests/vllm

clean:
	rm -rf .venv
