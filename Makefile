# Everything a newcomer runs. Each target sets up what it needs first: system packages, .venv, models.
.PHONY: run talk serve test lint bench full-size setup setup-sound setup-gpu setup-dev clean

run: setup ## replay the bundled conversations and explain every turn; ARGS='...' are arguments of `turnscope replay`
	@.venv/bin/turnscope replay $(ARGS)

talk: setup-sound ## speak and be answered through the speakers; ARGS='...' are arguments of `turnscope talk`
	@.venv/bin/turnscope talk $(ARGS)

serve: setup ## a page to talk to the agent in a browser; ARGS='...' are arguments of `turnscope serve`
	@.venv/bin/turnscope serve $(ARGS)

test: lint ## all checks and tests; ARGS='...' are arguments of pytest
	@.venv/bin/python -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder $(ARGS)

lint: setup-dev
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/pyright --pythonpath .venv/bin/python && .venv/bin/lint-imports

bench: setup-dev ## the figures that Turnscope must reach, measured here; ARGS='...' are names of its parts
	@.venv/bin/python -m tests.bench $(ARGS)

full-size: setup-gpu ## the three big engines at full size with random weights, measured against predicted time
	@.venv/bin/turnscope full-size $(ARGS)

setup:
	@agent/setup/setup.sh

setup-sound:
	@agent/setup/setup.sh --sound

setup-gpu: ## what the big engines need, for CUDA where there is a device; several gigabytes
	@agent/setup/setup.sh --gpu

setup-dev:
	@agent/setup/setup.sh --dev

clean: ## all that was made in this checkout but runs/; models and built wheels stay in the user's cache
	@rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .import_linter_cache
