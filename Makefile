# newsift: demo, test, lint and bench. Everything they need is installed inside .venv, from the locks.

PYTHON ?= $(shell command -v python3.11 || echo python3)

BIN := .venv/bin
INTO := --quiet --python $(BIN)/python
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-strip-extras --no-build $(UPGRADE)
LOCK_INPUTS := --constraint requirements-dev.lock pyproject.toml
# PyTorch and what it alone needs, which the lock of development holds already.
NO_TORCH := awk '/^[a-z]/ { keep = !/^(torch|triton|cuda-|nvidia-)/ } keep'
# MPNet comes as five packages that name dependencies which nobody needs, so they are pinned by hand.
MPNET := awk '/^[a-z]/ { keep = /^all-mpnet/ } keep'
# Named after what was installed: a changed lock makes a new stamp, a new date does not.
SUM = $(shell cat pyproject.toml $(1) | cksum | cut -d ' ' -f 1)
# Three stages, each adds to the one before: what newsift needs; PyTorch and the tools of
# development; the models that it is compared with.
READY := .venv/ready-$(call SUM,requirements.lock requirements-build.lock)
DEV := $(READY:.venv/ready%=.venv/dev%)-$(call SUM,requirements-dev.lock)
PEERS := $(DEV:.venv/dev%=.venv/peers%)-$(call SUM,requirements-peers.lock)

# Every process that a test starts would compile each module again.
unexport PYTHONDONTWRITEBYTECODE

FAST := encoder/score worker/config worker/match worker/posts \
	worker/seeds worker/stream worker/metrics
# Folders whose tests .ci/run runs, beside those marked as slow.
CI_ONLY := faults hostile newsift/desk/browser
SLOW := fuzz revoking control_lost

.PHONY: demo test test-fast least faults lint docs bench env peers lock clean soak

demo: $(READY)
	@$(BIN)/newsift demo

test: env
	@# Each worker keeps to one thread of BLAS, else they fight over the cores.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder \
		-m "not slow" $(foreach folder,$(CI_ONLY),--ignore tests/$(folder))
	@echo "not run: $(CI_ONLY) and tests marked as slow; .ci/run has them"

# At each save: the rooms that start no process and compile next to nothing.
test-fast: env
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 -m "not slow" --hypothesis-profile fast $(addprefix tests/,$(FAST)) \
		$(foreach name,$(SLOW),--ignore-glob "*_$(name).py")

# With the least versions that pyproject.toml allows, in an environment of their own.
LEAST := .venv/least/bin
least: env
	@$(COMPILE) --resolution lowest-direct --extra figures --extra parquet pyproject.toml \
		--output-file .venv/least.txt
	@$(COMPILE) --constraint .venv/least.txt --extra figures --extra parquet --group dev \
		pyproject.toml --output-file .venv/least.lock
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv/least
	@$(BIN)/uv pip install --quiet --python $(LEAST)/python --no-build --require-hashes -r .venv/least.lock
	@$(BIN)/uv pip install --quiet --python $(LEAST)/python --no-deps --no-build-isolation --editable .
	@PATH=$(CURDIR)/$(LEAST):$$PATH OMP_NUM_THREADS=1 $(LEAST)/python -m pytest -q -n 2 \
		--dist loadfile -m "not slow" $(addprefix tests/,encoder worker train newsift/files \
		newsift/statistics newsift/test_match.py)

# Every fault in full, on both brokers; Apache Kafka needs Java and Maven.
faults: env
	@NEWSIFT_TEST_KAFKA=apache NEWSIFT_TEST_FAULTS=full $(BIN)/python -m pytest -q tests/faults

# Two hours of posts under random faults with Apache Kafka, and an hour of damaged input.
soak: env
	@$(BIN)/python -m tests.faults.soak --hours 2
	@$(BIN)/python -m tests.hostile.fuzz --seconds 3600

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

# The documentation as pages in site/, each link checked; it is searched without a server.
docs: env
	$(BIN)/mkdocs build --quiet --strict

bench: peers
	$(BIN)/newsift bench encoder

env: $(DEV)

peers: $(PEERS)

$(READY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "newsift needs Python 3.11 or newer, which '$(PYTHON)' is not;" \
		"name one: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@if [ -e .venv/unfinished ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		$(PYTHON) -m venv --clear .venv || { \
		echo "no virtual environment can be made: install the venv module (python3-venv)" >&2; \
		exit 2; }; fi
	@rm -f .venv/ready-* && touch .venv/unfinished
	@echo "newsift: installing into .venv" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: \
		--require-hashes -r requirements-build.lock
	@$(BIN)/uv pip install $(INTO) --no-build --require-hashes -r requirements.lock
	@$(BIN)/uv pip install $(INTO) --no-deps --no-build-isolation --editable .
	@rm .venv/unfinished && touch $@

$(DEV): | $(READY)
	@rm -f .venv/dev-* .venv/peers-*
	@echo "newsift: installing PyTorch and the tools of development into .venv" >&2
	@$(BIN)/uv pip install $(INTO) --no-build --require-hashes -r requirements-dev.lock
	@touch $@

$(PEERS): | $(DEV)
	@$(BIN)/uv pip install $(INTO) --no-build --no-deps --require-hashes -r requirements-peers.lock
	@touch $@

# `make lock` keeps the versions it can; `make lock UPGRADE=--upgrade` takes the newest.
lock: env
	$(COMPILE) pyproject.toml --group dev --extra figures --extra parquet \
		--output-file requirements-dev.lock
	$(COMPILE) $(LOCK_INPUTS) --output-file requirements.lock
	$(COMPILE) $(LOCK_INPUTS) --extra gpu --output-file requirements-gpu.lock
	$(COMPILE) --constraint requirements-dev.lock --group build --output-file requirements-build.lock
	$(MPNET) requirements-peers.lock > .venv/mpnet.lock
	$(COMPILE) $(LOCK_INPUTS) --extra peers --output-file requirements-peers.lock
	$(NO_TORCH) requirements-peers.lock | cat .venv/mpnet.lock - > .venv/peers.lock
	mv .venv/peers.lock requirements-peers.lock

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build site
