# Two commands matter: `make run` and `make test`. Both install what they need first.
PORT ?= 8000
WORKSPACE ?= ./workspace
PLUGINS ?= jupyter agent_skills
# What isolates the box of `make run`: bubblewrap, none, or auto, which is bubblewrap if it works.
ISOLATION ?= auto
# What make and its command line leave in the environment; it is not for the commands of a box.
OF_MAKE := MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES MAKE_TERMOUT MAKE_TERMERR PORT WORKSPACE PLUGINS ISOLATION
# How many processes share the tests.
JOBS ?= $(shell n=$$(nproc); echo $$((n > 4 ? 4 : n)))
INPUTS := pyproject.toml constraints.txt scripts/setup.sh tests/support/npm/package.json \
	tests/openhands/constraints.txt extension/package.json

# How many processes spin beside the tests of `make test-busy`.
LOAD ?= 2
QUICK := not (engine or browser or vscode or stress or slow)
.PHONY: help setup run check test test-busy lint bench bundle image extension clean

help: ## show this
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

setup: .venv/.run ## install what running a box needs into .venv, and what kernels have into .venv-kernel

.venv/.run: $(INPUTS)
	@scripts/setup.sh run

.venv/.dev: $(INPUTS)
	@scripts/setup.sh dev

run: .venv/.run ## serve an isolated box for WORKSPACE on 127.0.0.1:PORT; ISOLATION=none: one that is not isolated
	@unset $(OF_MAKE); exec .venv/bin/glovebox serve $(PORT) --isolation $(ISOLATION) --working-dir "$(WORKSPACE)" \
	  $(if $(PLUGINS),--plugins $(PLUGINS))

check: lint ## the checks for every edit, in a minute: `make lint` and the tests that are quick and need no engine, browser or VS Code
	.venv/bin/python -m pytest -n $(JOBS) -m '$(QUICK)'

test: lint ## check style, types, import rules and documentation, and run all tests
	.venv/bin/python -m compileall -q src
	@scripts/test.sh $(JOBS)

test-busy: lint ## the same on a busy machine: LOAD processes (2) spin beside the tests
	.venv/bin/python -m compileall -q src
	@LOAD=$(LOAD) scripts/busy.sh scripts/test.sh $(JOBS)

lint: .venv/.dev ## the checks of `make test` without the tests
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/basedpyright
	.venv/bin/lint-imports
	.venv/bin/python extension/generate.py --check
	scripts/extension.sh lint

bench: .venv/.dev ## measure this box beside its peers (BENCH=--quick for a short run)
	.venv/bin/python -m compileall -q src
	.venv/bin/python -m benchmarks $(BENCH)

bundle: .venv/.dev ## the runtime as one file that runs in any Linux image, below dist/
	.venv/bin/glovebox bundle

image: .venv/.dev ## the image glovebox:latest (IMAGE_BASE: any Debian or Ubuntu, IMAGE_VARIANT=browser or vscode)
	@scripts/image.sh

extension: .venv/.dev ## the VS Code extension, as dist/glovebox.vsix
	@scripts/extension.sh package dist/glovebox.vsix

clean: ## remove what was installed and built
	rm -rf .venv .venv-kernel .venv-openhands extension/node_modules extension/dist build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
