# Every target sets up what it needs in .venv; only python3.11 with pip has to be there.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SPLICED := .spliced
# 211: what a script includes and does not use; 431: a parameter named like a slot.
LUA_STD := --no-config --std lua51 --no-max-line-length --ignore 211 431 \
	--not-globals os io require dofile loadfile --read-globals redis KEYS ARGV cjson --

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench clean

help: ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | while IFS="$$(printf '\t')" read -r name text; do \
		printf '  make %-8s %s\n' "$$name" "$$text"; done

setup: $(STAMP) ## install everything into .venv

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(STAMP) ## show the whole thing at work on an embedded server
	$(BIN)/coordinator demo

test: $(STAMP) ## run the tests (ARGS="-k word" narrows them)
	$(BIN)/python -m pytest $(ARGS)

check: $(STAMP) ## lint, format, types, layers, Lua
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if command -v luacheck >/dev/null 2>&1; then \
		rm -rf $(SPLICED) && $(BIN)/python -m coordinator.store.scripts --spliced $(SPLICED) \
		&& luacheck $(LUA_STD) $(SPLICED)/*.lua; \
	else echo 'check: luacheck is not installed, so the Lua scripts were not linted'; fi

bench: $(STAMP) ## measure, and print the figures
	$(BIN)/python -m tests.bench

clean: ## remove what the targets made
	rm -rf $(VENV) $(SPLICED) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
