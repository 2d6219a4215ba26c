# Each target does its own set-up: Python 3.11+ and Java 17+ are all that has to be there.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PACKAGES_STAMP := $(VENV)/.packages
STAMP := $(VENV)/.installed
REWRITTEN := build/.rewritten
SOAK_KILLS := tests/end_to_end/test_kill.py tests/end_to_end/test_processes.py tests/end_to_end/test_store_processes.py
PROPERTIES := tests/base tests/engine tests/storage tests/test_slots.py
SOAK_EXAMPLES := 5
# Of what is installed: their byte code would take two thirds of the time for all.
NEVER_IMPORTED := /(tests|pip|setuptools|mypyc?|matplotlib|fontTools|pyspark/pandas)/
# The one that comes with Python 3.11 takes three times the processor time to choose the packages (46 s in place of 15 s).
PIP := pip>=25,<27
PACKAGES := stepwell coordinator protocols engine io_kafka storage faults base

WORKERS ?= 6
TESTS ?= tests
COUNT ?= 200
SEED ?= 0
SEEDS ?= 0-199
SECONDS ?= 600

TOOLS := build/tools/usr/bin/promtool

DOCS := build/docs-venv
SITE := build/site

.PHONY: dist tools packages set-up demo demo-cluster test rewritten test-long check lint types soak sabotage mutants fuzz bench benchmarks-sql docs clean

packages: $(PACKAGES_STAMP)

set-up: $(STAMP)

demo: $(STAMP)
	$(BIN)/python -m examples.flights.demo

demo-cluster: $(STAMP)
	$(BIN)/python -m examples.flights.demo_cluster

# WORKERS beside each other, because each waits much of its time; tests/scheduling.py says which one runs what. TESTS="tests/engine" for some.
test: export PYTHONDONTWRITEBYTECODE =
test: $(STAMP) $(if $(filter tests,$(TESTS)),$(REWRITTEN))
	$(BIN)/python -m pytest -n $(WORKERS) $(TESTS)

# Each worker imports all test files. Once they have changed, one process leaves their byte code, whose assertions pytest has rewritten.
rewritten: $(REWRITTEN)

$(REWRITTEN): export PYTHONDONTWRITEBYTECODE =
$(REWRITTEN): $(PACKAGES_STAMP) $(shell find tests -name '*.py')
	@$(BIN)/python -m pytest --collect-only -qq tests > /dev/null || true
	@mkdir -p $(@D) && touch $@

# What the suite leaves out because other tests stand for it. A quarter of an hour: before a release, and after a change of what they are about.
test-long: export PYTHONDONTWRITEBYTECODE =
test-long: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) -m "long and not soak" $(TESTS)

check: lint types test

lint: $(PACKAGES_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(PACKAGES_STAMP)
	$(BIN)/mypy

# The simulator has the machine to itself, for its seeds are to take ten minutes at most; then two halves beside each other, which mostly wait.
# The property tests try five times the examples that they name (tests/examples.py).
soak: $(STAMP)
	@mkdir -p build
	@$(BIN)/python -m pytest -m "soak or long" --durations=5 tests/simulator; first=$$?; \
	$(BIN)/python -m pytest -m "soak or long" --durations=20 $(SOAK_KILLS) > build/soak-kills.log 2>&1 & kills=$$!; \
	$(BIN)/python -m pytest -m "soak or long" --durations=20 --ignore=tests/simulator $(addprefix --ignore=,$(SOAK_KILLS)); second=$$?; \
	TEST_EXAMPLES=$(SOAK_EXAMPLES) $(BIN)/python -m pytest $(PROPERTIES); third=$$?; \
	wait $$kills; kills=$$?; echo; echo "$(SOAK_KILLS):"; cat build/soak-kills.log; \
	test $$first -eq 0 -a $$second -eq 0 -a $$third -eq 0 -a $$kills -eq 0

# Breaks a copy of the code on purpose, one mistake at a time, and fails unless the tests notice each: NAMES="..." for some of them.
sabotage: $(STAMP)
	@mkdir -p build
	$(BIN)/python -m tests.sabotage --write build/sabotage.md $(NAMES)

# Samples COUNT small mistakes over all of the code and lists those that no test notices; UNDER=engine/operators for some modules.
mutants: $(STAMP)
	@mkdir -p build
	$(BIN)/python -m tests.sabotage.mutants --count $(COUNT) --seed $(SEED) --under "$(UNDER)" --write build/mutants.md

# Judges random projects against Spark: SEEDS=FIRST-LAST, for at most SECONDS; FEATURED="auto cdc,pivot" has these constructs in every one.
# A failing one is made smaller and written to build/fuzz.
fuzz: $(STAMP)
	@mkdir -p build/fuzz
	$(BIN)/python -m tests.fuzz --seeds $(SEEDS) --seconds $(SECONDS) --featured "$(FEATURED)" --folder build/fuzz

# The source archive and the wheels, in build/dist, and the first hour of a stranger with them. auditwheel says which Linux the wheel with the
# extensions fits (manylinux), and names it so.
dist: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[dist]'
	$(BIN)/python -m tests.dist.build build/dist
	PATH=$(BIN):$$PATH $(BIN)/auditwheel repair --wheel-dir build/dist build/dist/*-linux_*.whl
	rm build/dist/*-linux_*.whl
	$(BIN)/python -m tests.dist.trial build/dist

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	QUICK=$(QUICK) GROWTH=$(GROWTH) LAYOUTS=$(LAYOUTS) TRANSITIONS=$(TRANSITIONS) COMMANDS=$(COMMANDS) RUNS=$(RUNS) ENGINES=$(ENGINES) WORKLOADS=$(WORKLOADS) $(BIN)/python -m bench

# Nexmark, TPC-H and TPC-DS, incrementally and by Spark: SUITE="tpch" for one suite, QUERIES="q01,q03" for some queries.
benchmarks-sql: $(STAMP)
	$(BIN)/python -m bench.sql --suite "$(SUITE)" --queries "$(QUERIES)"

$(PACKAGES_STAMP): pyproject.toml setup.py io_kafka/clients/_native.c io_kafka/formats/_json.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Stepwell needs Python 3.11 or later: $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@command -v java >/dev/null || { echo "Stepwell needs Java 17 or later: no 'java' on the path."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --upgrade '$(PIP)'
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev,demo]'
	@touch $@

# The archive of Spark's classes takes one core for half a minute, so the byte code is made beside it.
$(STAMP): $(PACKAGES_STAMP)
	$(BIN)/python -m stepwell.spark.make_class_archive & spark=$$!; \
	$(BIN)/python -m compileall -q -j 0 -x '$(NEVER_IMPORTED)' $(VENV)/lib > /dev/null; \
	$(BIN)/python -m tests.broker_classes && wait $$spark
	@touch $@

# For tests that are skipped without them: a browser, and Prometheus' checker of metrics and rules. The checker comes out of Debian's package
# without an installation, so that no service starts.
tools: $(TOOLS)
	@command -v chromium > /dev/null || apt-get install -y -qq --no-install-recommends chromium

$(TOOLS):
	@mkdir -p build/tools
	apt-get update -qq
	cd build/tools && apt-get download -q prometheus && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb usr/bin/prometheus

# The site of the documentation, in build/site. A link that leads nowhere is an error. (With --quiet it would not be: mkdocs counts what it says.)
docs: $(DOCS)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	@echo 'the site is in $(SITE): open $(SITE)/index.html'

# The packages of the extra `docs`, and not Stepwell, whose dependencies no page needs.
$(DOCS)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(PYTHON) -c 'import tomllib; \
		print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' > $(DOCS)/packages.txt
	$(DOCS)/bin/pip install --quiet -r $(DOCS)/packages.txt
	@touch $@

clean:
	rm -rf build $(VENV)
