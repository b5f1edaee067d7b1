# Every target implies set-up; nothing but Python 3.11+ is needed beforehand.
PYTHON ?= python3
BIN := .venv/bin
MODEL ?= smollm2-135m-instruct

.PHONY: setup serve demo test check clean

setup: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

serve: setup
	$(BIN)/leeway serve $(MODEL)

demo: setup
	$(BIN)/leeway demo $(MODEL)

test: setup
	$(BIN)/leeway models pull $(MODEL) || echo "model not fetched: its tests will be skipped, aloud"
	$(BIN)/python -m pytest -n 2

check: setup
	$(BIN)/ruff format --check src tests
	$(BIN)/ruff check src tests
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf .venv
