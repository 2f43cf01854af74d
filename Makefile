# The targets to remember: quick, lint, test, soak, bench, demo. Each installs what it needs into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Three processes for two cores, since tests often wait for their subprocesses, but fewer if memory is short, since each
# grows to some 7 GB. Each takes whole files, whose tests share what they build, in the order of tests/conftest.py.
PROCESSES = $(shell $(PYTHON) -c 'import os; size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"); \
    print(max(1, min(3, size // 7_000_000_000)))')
BESIDE = -n $(PROCESSES) --dist loadfile --no-loadscope-reorder

.PHONY: demo quick test soak lint bench clean
.DELETE_ON_ERROR:

demo: $(VENV)/demo
	$(BIN)/python -m suite.run task=image_classification scale=mini hw=cpu out=runs/demo-$$(date +%Y%m%d-%H%M%S)

test: $(VENV)/dev
	$(BIN)/python -m pytest $(BESIDE) -m "not soak"

quick: $(VENV)/dev
	$(BIN)/python -m pytest $(BESIDE) -m "not slow and not soak"

soak: $(VENV)/dev
	$(BIN)/python -m pytest $(BESIDE) -m soak

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/dev
	$(BIN)/python -m tests.bench.overhead
	$(BIN)/python -m tests.bench.mlperf
	$(BIN)/python -m tests.bench.probe

clean:
	rm -rf $(VENV)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4))' || \
	    { echo "error: $(PYTHON) is older than Python 3.11.4: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)

# uv takes a fraction of pip's time, but reads no pip settings: if it cannot be had or finds no packages, pip installs.
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
UV = $(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode -c constraints.txt

$(VENV)/demo: EXTRAS = torch,image-classification
$(VENV)/dev: EXTRAS = dev
$(VENV)/demo $(VENV)/dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) uv && $(UV) -e '.[$(EXTRAS)]' || $(PIP) -e '.[$(EXTRAS)]'
	@touch $@
