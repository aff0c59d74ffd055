# make run    set up, then evaluate kl_div          make check     lint, types, layers
# make test   set up, then the whole test suite     make test-gpu  the tests that need a GPU
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
TIMED := tests/test_cheats.py
BY_FILE := --dist loadfile --no-loadscope-reorder

.PHONY: run test test-gpu check format clean

run: $(READY)
	$(BIN)/python run_eval.py --problem kl_div

# A file at a time on each of two cores, the longest first; then what is timed, alone.
test: $(READY)
	$(BIN)/python -m pytest -m "not gpu" -n 2 $(BY_FILE) --ignore $(TIMED)
	$(BIN)/python -m pytest -m "not gpu" $(TIMED)

test-gpu: $(READY)
	$(BIN)/python -m pytest -m gpu

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# An interpreter that already has everything serves too: make VENV=/path/to/venv READY= ...
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) .cache build *.egg-info
