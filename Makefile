# Everything a person or a CI job does here. `make` alone lists it.
#
# On a fresh machine each target works alone: the first one builds .venv. Overrides:
#   PYTHON=python3.12        the interpreter that .venv is made from (3.10 or later)
#   TORCH_SPEC=torch==2.9.1  another torch, or several packages; empty for none
#   PIP_ARGS=...             passed to every pip install, e.g. an index of CPU-only builds
#   TEST_ARGS=...            passed to pytest, e.g. -k replay
#   GPU_ARGS=...             passed to the checks on a GPU, e.g. --only waits

PYTHON ?= python3
VENV ?= .venv
# Exact on purpose: a looser requirement is free to bring gigabytes of CUDA libraries.
TORCH_SPEC ?= torch==2.13.0
PIP_ARGS ?=
TEST_ARGS ?=
GPU_ARGS ?=

BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := tests/patients/loader_in_main.py
# A test that hangs is a failure with a traceback, not a job that never ends.
PYTEST := $(BIN)/python -m pytest --timeout=240
# Files of tests side by side, a file's own tests one after the other: they share what they started. The longest
# come first (tests/conftest.py), not those with the most tests. Three keep two cores busy: tests also sleep and wait.
SIDE_BY_SIDE := $(PYTEST) --numprocesses 3 --dist loadfile --no-loadscope-reorder

SITE := $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet

.DEFAULT_GOAL := list
.DELETE_ON_ERROR:
.PHONY: list demo test test-all quick check lint types house docs links bench accuracy others proving fuzz cluster gpu gpu-first format clean

list: ## list what make can do here
	@awk -F ' *:.*## *' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY) ## diagnose a small training that is slow on purpose, and show the report
	$(BIN)/bdoc run --output $(VENV)/demo.json $(DEMO)
	@echo
	@echo "that was: bdoc run $(DEMO)"
	@echo "again:    $(BIN)/bdoc report $(VENV)/demo.json"

# $(call tests,AND): side by side, then alone those that compare times.
# Status 5 is "no test was asked for": TEST_ARGS may choose among one half alone, but not none at all.
define tests
@$(SIDE_BY_SIDE) -m "not alone $(1)" $(TEST_ARGS); parallel=$$?; \
	$(PYTEST) -m "alone $(1)" $(TEST_ARGS); alone=$$?; \
	case $$parallel,$$alone in 0,0 | 0,5 | 5,0) ;; \
	*) echo "tests ended with status $$parallel (side by side) and $$alone (alone)" >&2; exit 1 ;; esac
endef

test: $(READY) ## run the tests of every part, a training of each kind among them
	$(call tests,and not long)

test-all: $(READY) ## run all tests, those too that watch whole trainings and trials, browsers and the site
	$(call tests,)

quick: $(READY) ## run the tests that start no training
	$(SIDE_BY_SIDE) -m "not slow and not alone" $(TEST_ARGS)

check: sizes lint types test-all ## all that CI checks: lint, format, types, house rules, tests

.PHONY: ratchet sizes
sizes: $(READY)
	@$(BIN)/python -m tests.house.ratchet --keep

ratchet: $(READY) ## print the sizes that may only go down, and lower tests/house/ratchet.json to them
	@$(BIN)/python -m tests.house.ratchet

lint: $(READY) ## check lint and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## check types, strictly
	$(BIN)/mypy

house: $(READY) ## check the house rules alone: imports, sizes, names, messages, the shut door
	$(PYTEST) tests/house $(TEST_ARGS)

format: $(READY) ## rewrite the code in the house's format, and mend what lint can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# REPOSITORY: an address that pages link to where they speak of files outside docs/; empty, their paths are named.
docs: $(READY) ## write quotations and docs/reference/ anew, and docs/ as a site into build/site
	$(BIN)/python -m tests.house.quoted
	$(BIN)/python -m tests.house.reference
	$(SITE) -b html -d build/doctrees docs build/site
	@echo "the site: build/site/index.html"

links: $(READY) ## ask the network whether the addresses that pages name still answer
	$(BIN)/python -m tests.house.quoted
	$(BIN)/python -m tests.house.reference
	$(SITE) -b linkcheck -d build/doctrees docs build/links

accuracy: $(READY) ## diagnose every test training, measure its cured twin, write docs/accuracy.md
	$(BIN)/python -m tests.accuracy --keep tests/golden/accuracy --write docs/accuracy.md

others: $(READY) ## diagnose trainings that others wrote, and try each of their cures
	$(BIN)/python -m pip install --quiet $(PIP_ARGS) h5py opencv-python-headless lightning transformers
	$(BIN)/python -m tests.others --keep

proving: $(READY) ## prove remedies on test trainings, measure their twins by hand, write docs/accuracy-prove.md
	$(BIN)/python -m tests.proving --keep tests/golden/proving --write docs/accuracy-prove.md

fuzz: $(READY) ## try CASES hostile profiles and files of rows, from seed FIRST on
	$(BIN)/python -m tests.fuzz --first $(or $(FIRST),0) --cases $(or $(CASES),10000)

cluster: $(READY) ## train on two nodes of this machine, by torchrun, Slurm, Ray, a PyTorchJob; the late one must be named
	$(BIN)/python -m pip install --quiet $(PIP_ARGS) 'ray[train,data]' || echo "ray could not be installed" >&2
	$(BIN)/python -m tests.cluster

bench: $(READY) ## measure what watching costs, interleaved with plain runs
	$(BIN)/python -m tests.bench

# No $(READY): a GPU machine may have no network, and its own torch is the one to measure. Status 2: no device.
gpu: ## check bdoc on this machine's GPU: test trainings, twins, truth by events; see tests/gpu/README.md
	$(or $(wildcard $(BIN)/python),$(PYTHON)) -m tests.gpu.run --keep --write docs/accuracy-gpu.md $(GPU_ARGS)

gpu-first: ## ask this machine's GPU in ten minutes what bdoc assumes of it, and whether bdoc does harm
	$(or $(wildcard $(BIN)/python),$(PYTHON)) -m tests.gpu.first $(GPU_ARGS)

clean: ## remove the virtual environment and what tools leave behind
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache build dist
	find bottleneck_doctor tests -name __pycache__ -type d -prune -exec rm -rf {} +

# torch goes in first and alone, so that nothing else's requirement chooses its build.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; raise SystemExit(sys.version_info < (3, 10))' \
		|| { echo "$(PYTHON) is not Python 3.10 or later: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(if $(strip $(TORCH_SPEC)),$(BIN)/python -m pip install --quiet $(PIP_ARGS) $(TORCH_SPEC))
	$(BIN)/python -m pip install --quiet $(PIP_ARGS) --editable '.[dev]'
	@touch $@
