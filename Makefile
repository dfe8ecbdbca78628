# make demo   asks the demo team one question about this repository
# make test   lint, types, tests and documentation
# make test-apart  the tests of what cannot be installed beside the rest, each group in an environment of its own
# make ecosystem   tests the adapters, and writes the table of docs/ecosystem.md
# make bench-durable  what a step and a child cost that outlive their process
# make campaign SECONDS=600   random trees of failing children, for so long
# make house  counts what keeps the code plain, and draws it (docs/images/house.svg)
# make bench  measures speed and memory, and writes docs/performance.md; QUICK=1 for a short one that writes build/bench
#
# Each sets up an environment of its own the first time, and again when pyproject.toml changes.
# Needs git, make and Python >= 3.11. Another interpreter: PYTHON=python3.13 make test

PYTHON ?= $(shell for python in python3 python python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
DEMO := .venv-demo-$(VERSION)
TEST := .venv-test-$(VERSION)
BENCH := .venv-bench-$(VERSION)
QUESTION ?= How large is the code by language, what changed last, and what does the README say about running the tests?
PYTEST_ARGS ?=
SECONDS ?= 60
QUICK ?=
BENCH_VENVS ?=

.PHONY: demo test test-apart test-crewai test-remote ecosystem campaign-durable bench-durable campaign bench house lint types python clean

demo: $(DEMO)/ready
	@$(DEMO)/bin/symfonic run demo/team.toml "$(QUESTION)"

test: lint types
	$(TEST)/bin/python -m pytest --numprocesses=2 --dist=loadfile --cov --fail-on-skip $(PYTEST_ARGS)

test-apart: test-crewai test-remote

test-crewai: $(TEST)-crewai/ready
	$(TEST)-crewai/bin/python -m pytest --numprocesses=2 --dist=loadfile --fail-on-skip --cov --cov-config=tests/apart/crewai/coverage.toml $(PYTEST_ARGS) tests/apart/crewai docs/ecosystem/crewai.md

# One after another: most of these start processes of their own, and kill some.
test-remote: $(TEST)-remote/ready
	$(TEST)-remote/bin/python -m pytest -p no:xdist -o faulthandler_timeout=600 --fail-on-skip $(PYTEST_ARGS) tests/apart/remote docs/remote.md docs/durable.md

ecosystem: $(TEST)/ready $(TEST)-crewai/ready
	$(TEST)/bin/python -m pytest -q --numprocesses=2 --dist=loadfile -p tools.ecosystem.plugin tests/adapters
	$(TEST)-crewai/bin/python -m pytest -q -p tools.ecosystem.plugin tests/apart/crewai

# Kills everything at random moments, thirty times on each database.
campaign-durable: $(TEST)-remote/ready
	DURABLE_SEEDS=30 $(TEST)-remote/bin/python -m pytest -q -p no:xdist -o faulthandler_timeout=900 --fail-on-skip tests/apart/remote/test_durable_campaign.py

# On a file, and on PostgreSQL where it is installed, or on DATABASE=URL.
bench-durable: $(TEST)-remote/ready
	$(TEST)-remote/bin/python benchmarks/durable.py $(if $(DATABASE),--database $(DATABASE))

campaign: $(TEST)/ready
	@$(TEST)/bin/python -m tools.campaign --seconds $(SECONDS)

lint: $(TEST)/ready
	$(TEST)/bin/ruff check .
	$(TEST)/bin/ruff format --check .

types: $(TEST)/ready
	$(TEST)/bin/mypy
	$(TEST)/bin/basedpyright --pythonpath $(TEST)/bin/python

house: $(TEST)/ready
	$(TEST)/bin/python -m tools.house

# BENCH_VENVS=DIR: environments of other frameworks, as benchmarks/setup.sh makes them, are measured as well.
bench: $(BENCH)/floor/ready $(BENCH)/langchain-core/ready $(BENCH)/symfonic/ready $(BENCH)/report/ready
	$(BENCH)/report/bin/python -m benchmarks --venvs $(BENCH) $(BENCH_VENVS) $(if $(QUICK),--quick)

$(DEMO)/ready: pyproject.toml | python
	$(PYTHON) -m venv --clear $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --editable '.[cli]'
	@touch $@

$(TEST)/ready: pyproject.toml | python
	$(PYTHON) -m venv --clear $(TEST)
	$(TEST)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(TEST)/bin/python -m pip install --quiet --editable '.[cli,cost,langchain,openai,otel,pydantic-ai,retries]' --group dev
	@touch $@

$(TEST)-%/ready: pyproject.toml | python
	$(PYTHON) -m venv --clear $(TEST)-$*
	$(TEST)-$*/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(TEST)-$*/bin/python -m pip install --quiet --editable '.[cli,openai,otel,retries]' --group $*
	@touch $@

$(BENCH)/symfonic/ready: pyproject.toml $(shell find src -name '*.py')
$(BENCH)/%/ready: benchmarks/pins/%.txt benchmarks/setup.sh | python
	PYTHON=$(PYTHON) benchmarks/setup.sh $(BENCH) $*
	@touch $@

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	echo "symfonic needs Python >= 3.11; PYTHON is '$(PYTHON)' (try: PYTHON=python3.12 make demo)" >&2; exit 1; }

clean:
	rm -rf .venv-demo-* .venv-test-* .venv-bench-* .coverage .coverage.* .hypothesis .mypy_cache .ruff_cache build dist
