# Everything a newcomer runs. Each target sets up what it needs first: system packages, .venv, models.
.PHONY: run test lint bench setup setup-dev clean

run: setup ## replay the bundled conversations and explain every turn; ARGS='...' are arguments of `turnscope replay`
	@.venv/bin/turnscope replay $(ARGS)

test: lint ## all checks and tests; ARGS='...' are arguments of pytest
	@.venv/bin/python -m pytest $(ARGS)

lint: setup-dev
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/pyright --pythonpath .venv/bin/python && .venv/bin/lint-imports

bench: setup ## the figures that Turnscope must reach, measured here
	@.venv/bin/python -m tests.bench $(ARGS)

setup:
	@agent/setup/setup.sh

setup-dev:
	@agent/setup/setup.sh --dev

clean: ## all that was made in this checkout but runs/; models and built wheels stay in the user's cache
	@rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .import_linter_cache
