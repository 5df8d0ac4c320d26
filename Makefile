# Two commands do everything on a fresh machine with Python 3.11 or newer:
#   make run     installs archqa into .venv and answers the 28 development cases
#   make test    installs what the tests need as well, and runs every check and test that CI runs

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Of exact versions, each file verified by its hash: `make lock` renews them. They name every dependency.
INSTALL := $(BIN)/python -m pip install --quiet --require-hashes --no-deps --no-build-isolation
# A worker for each core; the tests of one file stay together, since they share slow fixtures. Files are
# handed out in the order of tests/conftest.py, the slowest first, so that no worker waits for another at the end.
PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder
QUICK := not server and not heavy and not long

.PHONY: run test quick random lint long own-model docs snapshots lock clean

run: $(VENV)/.base
	@run=$$($(BIN)/archqa predict data/dev.json | tee /dev/stderr | tail -n 1) \
	  && $(BIN)/archqa score "$$run" \
	    --metric strict_micro_precision --metric strict_micro_recall --metric strict_micro_f1 \
	  && echo "Look at one answer with: $(BIN)/archqa show $$run 1"

test: $(VENV)/.dev lint
	$(PYTEST) -m "not long"

# The checks and the tests that need neither torch nor the small model.
quick: $(VENV)/.dev lint
	$(PYTEST) -m "$(QUICK)"

# The quick tests in random order: none may rely on another that ran before it. A failure is repeated
# with the seed that pytest printed: make random SEED=1234
random: $(VENV)/.dev
	$(PYTEST) -m "$(QUICK)" --random-order $(if $(SEED),--random-order-seed=$(SEED))

# Longer checks: MEDCON's parity (spaCy, QuickUMLS), the benchmarks in Inspect, kills, crowds, whole records.
long: $(VENV)/.heavy
	$(BIN)/python -m pytest -m "heavy or long"

# A model of one's own through dmis and planner: make own-model GGUF=/path/to/model.gguf
own-model: $(VENV)/.dev
	ARCHQA_TEST_GGUF=$(GGUF) $(BIN)/python -m pytest -s -m server tests/server/test_a_model_of_ones_own.py

# The docs site, in site/: open site/index.html. A dead link is an error.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPY_NUM_WORKERS=auto $(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "archqa needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.base: $(VENV)/.made pyproject.toml .ci/requirements/build.txt .ci/requirements/run.txt
	$(INSTALL) --requirement .ci/requirements/build.txt
	$(INSTALL) --requirement .ci/requirements/run.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# torch has files of its own, since its builds differ; the last line adds what the build with CUDA needs.
$(VENV)/.dev: $(VENV)/.base .ci/requirements/test.txt .ci/requirements/torch.txt .ci/requirements/model.txt
	$(INSTALL) --requirement .ci/requirements/test.txt
	$(INSTALL) --requirement .ci/requirements/torch-cpu.txt 2>/dev/null \
	  || $(INSTALL) --requirement .ci/requirements/torch.txt
	$(INSTALL) --requirement .ci/requirements/model.txt
	$(BIN)/python -m pip install --quiet torch
	@touch $@

$(VENV)/.heavy: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable ".[medcon,inspect]"
	@touch $@

$(VENV)/.docs: $(VENV)/.base pyproject.toml
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist

# After a change of the dependencies in pyproject.toml: the newest versions that it allows, with their hashes.
# A new version of torch is written into torch.txt and torch-cpu.txt by hand.
LOCK := $(VENV)/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
  --custom-compile-command "make lock"
EXTRAS := bertscore alignscore server web mcp smart
lock:
	$(PYTHON) -m venv $(VENV)/lock && $(VENV)/lock/bin/python -m pip install --quiet uv
	$(LOCK) .ci/requirements/build.in --output-file .ci/requirements/build.txt
	$(LOCK) pyproject.toml --output-file .ci/requirements/run.txt
	$(LOCK) pyproject.toml .ci/requirements/torch.in $(addprefix --extra ,$(EXTRAS)) --group dev \
	  --constraint .ci/requirements/run.txt --override .ci/requirements/overrides.in --output-file .ci/requirements/test.txt
	$(LOCK) --no-deps .ci/requirements/model.in --output-file .ci/requirements/model.txt

# After a new prompt version: write its digest and rendering down. A released version must not change.
snapshots: $(VENV)/.dev
	ARCHQA_UPDATE_SNAPSHOTS=1 $(BIN)/python -m pytest -q tests/agents/test_prompts.py tests/agents/test_fhir_prompts.py tests/agents/test_asking_prompts.py tests/agents/test_line_support.py
