# One command for each thing, the same here and in CI. Each does its own set-up: see .ci/setup.
#   make demo ARGS="..."    make test ARGS="-k checkpoint -x"    make interop SEED=7 N=20

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup loops bench-installed demo test test-slow interop lint types wheel site site-check ui-check crash fuzz powercut shutdowns bench bench-latency bench-serve bench-synced bench-spark bench-archive bench-streams bench-ui storm soak soak-serve stream-kills archive-kills sink-kills pages docs clean release-files types-pyright
MAKEFLAGS += --no-print-directory
# Tests start hundreds of Python processes: without bytecode on disk each compiles every module that it imports,
# and each worker rewrites every test.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
ARGS ?=
# INSTALLED=1 has interop, crash, powercut, storm, soak and fuzz ask the installed wheel, whose puts, reads and sends are compiled. Not in
# the checkout: its folder mqstore/ would be found before it.
INSTALLED ?=
BENCHED := build/bench/installed
READY := $(if $(INSTALLED),bench-installed,setup)
ASKED := cd $(if $(INSTALLED),build/bench,.) && $(CURDIR)/$(if $(INSTALLED),$(BENCHED),.venv)/bin/python

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 22

setup: ## make .venv ready (all the others do this first; quick when nothing changed)
	@.ci/setup

# Nothing needs it: a loop that is not there is compiled where it is used. But then by many processes at once.
loops: setup ## all loops of the checkout compiled and kept: a minute, once
	@$(BIN)/python .ci/loops

demo: setup ## run 336,776 flights through topics, retries and dead letters, then Spark over them
	@$(BIN)/mqstore demo $(ARGS)

# loadgroup: tests that share a costly thing (a Spark session) share a worker; tests/conftest.py says which.
PYTEST = $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadgroup -p no:benchmark
test: setup ## most tests, in less than five minutes on two quiet cores; the others are those of `make test-slow`
	@$(PYTEST) -m "not slow and not spark and not jvm_page" $(ARGS)

test-slow: setup ## the tests that take seconds each, the sessions of Spark, the code blocks of the pages
	@$(PYTEST) -m "(slow or spark) and not jvm_page" $(ARGS)

# Not part of `make test`, for it needs Maven and a JDK; prepare says what to install where one is missing.
# SEED is the seed of all content, and the first of N seeds for the differential fuzzing.
SEED ?= 1
N ?= 1
interop: ## Apache RocketMQ's own code reads what we write, and the reverse
	@tests/interop/prepare
	@$(MAKE) $(READY)
	@export SEED=$(SEED) N=$(N); $(ASKED) -m pytest $(CURDIR)/tests/interop --config-file $(CURDIR)/pyproject.toml --rootdir $(CURDIR) \
	    -n 4 -p no:benchmark $(ARGS)

lint: setup ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { $(BIN)/ruff format --check . | tail -n 1; \
	    echo "to repair: $(BIN)/ruff format ."; exit 1; }

# The package is checked as its users get it: a plain install into an environment of its own, in which the
# top-level folders have become mqstore.*. The .pth file lends it the dependencies. Without py.typed, or with
# a folder that pyproject.toml does not ship, this fails.
wheel: setup ## the wheel that users install, without numba, and the tests of the store on it
	@FIRST_RUN_ARGS='$(FIRST_RUN_ARGS)' .ci/wheel $(ARGS)

TYPES := build/types
SITE := import site; print(site.getsitepackages()[0])
types: setup ## mypy --strict on the installed package, and on a program of a user
	@rm -rf build/lib build/lib.* build/wheel $(TYPES)
	@MQSTORE_BUILD_LOOPS=0 MQSTORE_BUILD_PUT=0 $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheel .
	@$(BIN)/python -m venv --without-pip $(TYPES)
	@$(BIN)/python -m pip --python $(TYPES)/bin/python install --quiet --no-deps build/wheel/*.whl
	@$(BIN)/python -c "$(SITE)" > "$$($(TYPES)/bin/python -c "$(SITE)")/dependencies.pth"
	@cd $(TYPES) && for checked in "-p mqstore" lib/python3*/site-packages/pyspark_mqstore.py \
	        ../../tests/support/user_program.py; do \
	    ../../$(BIN)/mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache \
	        --python-executable bin/python $$checked \
	        | sed -E 's#^.*/site-packages/##; s#^mqstore/(store|index|schedule|broker|remoting|client|observability|server|tools)/#\1/#'; \
	done

# Pyright is a program for Node: its package fetches it the first time. So this is not part of `make types`.
types-pyright: types ## pyright on a program of a user, over the installed package
	@$(BIN)/python -c 'import pyright' 2>/dev/null || $(BIN)/python -m pip install --quiet pyright
	@$(BIN)/pyright --pythonpath $(TYPES)/bin/python tests/support/user_program.py

# Five minutes or less on two quiet cores. STATES=1000000 for the long run; the figures of a run of full length go to docs/figures/.
STATES ?= 20000
KILLS ?= 1000
crash: $(READY) ## power cuts, kills, faults and planted bugs at full length; writes the figures
	@$(ASKED) $(CURDIR)/tests/crash/run.py --states $(STATES) --kills $(KILLS) $(ARGS)

# A quarter of an hour on two cores. Needs root, and says which packages are missing. A state that is condemned is kept:
# make powercut ARGS="--replay btrfs/1/3/1" judges it once more.
FS ?= ext4 xfs btrfs
powercut: STATES = 50
powercut: $(READY) ## power cuts of real file systems, from a log of all that their devices were told; writes the figures
	@$(ASKED) $(CURDIR)/tests/crash/powercut.py --states $(STATES) --seed $(SEED) --fs $(FS) $(ARGS)

# A quarter of an hour. Needs root. The store of the installed wheel takes part twice: with compiled and with interpreted puts.
shutdowns: REPEATS = 200
shutdowns: bench-installed ## ext4 is shut down amid synced writes of stores and of bare files; writes the figures
	@PYTHONPATH=tests $(BIN)/python tests/crash/shutdowns.py $(BENCHED)/bin/python --repeats $(REPEATS) --seed $(SEED) $(ARGS)

# More than twenty minutes. ARGS="--stride 7 reopen" strikes one operation at every seventh place.
storm: $(READY) ## an exception at every place of every operation, and signals; nothing may be lost
	@$(ASKED) $(CURDIR)/tests/crash/storm.py $(ARGS)

# ARGS="--seconds 600 --keep": for longer, and its store and journal stay.
soak: $(READY) ## two minutes of producers and consumers, killed and started again; nothing may be lost
	@$(ASKED) $(CURDIR)/tests/soak/run.py --seed $(SEED) $(ARGS)

# Three minutes. ARGS="--flush SYNC_FLUSH": every send waits for the disk.
soak-serve: setup ## two minutes of 500 connections to `mqstore serve`, clients killed and stopped, and rubbish; writes the figures
	@$(BIN)/python tests/soak/run_served.py --seed $(SEED) $(ARGS)

# Hostile stores, each asked everything in a process with limits. CASE=n runs one again, BOUNDS=1 checks every index and raw
# copy of the compiled loops; the figures of 20,000 cases or more go to docs/figures/. Half an hour or less.
CASES ?= 20000
BOUNDS ?=
fuzz: $(READY) ## damaged and crafted files at full length: no crash, no hang, no error without a name
	@$(if $(BOUNDS),export NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/build/checked;) $(ASKED) $(CURDIR)/tests/fuzz/run.py --cases $(CASES) \
	    --seed $(SEED) $(if $(CASE),--case $(CASE)) $(ARGS)

# What is measured is the wheel, as users install it. It is built first, the rivals are fetched the first time, and Apache RocketMQ's
# jars where Maven and a JDK are there. Twenty-five minutes or less on two quiet cores. Narrowed by ARGS="-k put_messages", it prints
# its tables and leaves the documents alone.
RESULTS := $(if $(ARGS),build/bench/narrowed,benchmarks/results/latest)
# pytest itself and not `python -m pytest`, which would find the folder mqstore/ of the checkout before the installed package.
MEASURE = $(BENCHED)/bin/pytest -p no:xdist --timeout 0 -o pythonpath=benchmarks --benchmark-only --benchmark-quiet
bench-installed: setup
	@rm -rf build/bench/wheel build/lib build/lib.* build/bdist.*
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/bench/wheel .
	@[[ -x $(BENCHED)/bin/pytest ]] || $(BIN)/python -m venv $(BENCHED)
	@$(BENCHED)/bin/python -m pip install --quiet "$$(ls $(CURDIR)/build/bench/wheel/*.whl)[bench]"
	@$(BENCHED)/bin/python -m pip install --quiet --no-deps --force-reinstall build/bench/wheel/*.whl
	@$(BENCHED)/bin/mqstore --version

bench: bench-installed ## the benchmarks, rivals beside us; writes benchmarks/results/, and the tables in README.md and docs/
	@benchmarks/rocketmq/prepare
	@$(MEASURE) benchmarks --ignore benchmarks/test_latency.py --benchmark-disable-gc --benchmark-json=$(RESULTS).json $(ARGS)
	@$(if $(ARGS),true,$(BENCHED)/bin/python benchmarks/scale.py)
	@$(BIN)/python benchmarks/report.py $(RESULTS).json --chart $(RESULTS).png \
	    $(if $(ARGS),,--documents)

# An hour on two quiet cores. RUN_SECONDS=2 ROUNDS=1 make bench-latency ARGS="-k plain" is a short part of it, and leaves the
# documents alone.
LATENCY := $(if $(ARGS),build/bench/latency,benchmarks/results/latency)
bench-latency: bench-installed ## percentiles of puts that are due at fixed times, rivals beside us; writes benchmarks/results/latency.json and docs/
	@benchmarks/rocketmq/prepare
	@$(MEASURE) benchmarks/test_latency.py --capture=no --benchmark-json=$(LATENCY).json $(ARGS)
	@$(BIN)/python benchmarks/latency_report.py $(LATENCY).json --chart $(LATENCY).png $(if $(ARGS),,--documents)

# A quarter of an hour on two quiet cores; needs Maven and a JDK. ARGS="--only batch --rounds 3" measures a part, and leaves the
# documents alone.
SERVED := build/served
bench-serve: setup ## rates of `mqstore serve` beside RocketMQ's broker, by its Java client; writes benchmarks/results/ and docs/serve.md
	@tests/interop/prepare
	@rm -rf $(SERVED) build/lib build/lib.* build/bdist.*
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(SERVED)/wheel .
	@$(BIN)/python -m venv $(SERVED)/installed
	@$(SERVED)/installed/bin/python -m pip install --quiet $(SERVED)/wheel/*.whl
	@PYTHONPATH=tests:benchmarks INTEROP_JAVA_OPTIONS="-XX:+UseG1GC -Xms1g -Xmx1g" $(BIN)/python benchmarks/served_rates.py $(SERVED)/installed/bin/python \
	    $(if $(ARGS),,--json benchmarks/results/served_rates.json --page docs/serve.md) $(ARGS)

# Not in the root, where Spark's workers would find the folder mqstore/ before the installed package.
bench-spark: bench-installed ## the data source for Spark beside Parquet; writes benchmarks/results/spark_scan.json and docs/spark.md
	@cd build/bench && $(CURDIR)/$(BENCHED)/bin/python $(CURDIR)/benchmarks/spark_scan.py --page $(CURDIR)/docs/spark.md $(ARGS)

# Five minutes. ARGS="--only sink" measures a part, and leaves the documents alone.
bench-streams: bench-installed ## streams and the sink of Spark beside a batch read and Parquet; writes benchmarks/results/spark_streams.json and docs/spark.md
	@cd build/bench && $(CURDIR)/$(BENCHED)/bin/python $(CURDIR)/benchmarks/spark_streams.py \
	    $(if $(ARGS),--json spark_streams.json,--page $(CURDIR)/docs/spark.md) $(ARGS)

# Three minutes. ARGS="--mib 32" measures less, and leaves the documents alone.
bench-synced: bench-installed ## what a put in SYNC_FLUSH costs once a log has grown; writes benchmarks/results/synced_growth.json and docs/benchmarks.md
	@$(BENCHED)/bin/python benchmarks/synced_growth.py \
	    $(if $(ARGS),,--json benchmarks/results/synced_growth.json --page docs/benchmarks.md) $(ARGS)

# Three minutes. ARGS="--rounds 1" measures less, and leaves the documents alone.
bench-archive: setup ## archiving beside a plain copy, and what a range of times fetches; writes benchmarks/results/archive.json and docs/archive.md
	@mkdir -p build/bench
	@PYTHONPATH=tests:benchmarks $(BIN)/python benchmarks/archive_cost.py \
	    $(if $(ARGS),--json build/bench/archive.json,--page docs/archive.md) $(ARGS)

# Ten seconds or more a kill. ARGS="--minutes 30": no further kill after that; five kills and more write the figures.
stream-kills: KILLS = 50
stream-kills: setup ## a streaming query of Spark, killed at random moments beside a writer; no row may be lost or doubled
	@PYTHONPATH=tests $(BIN)/python tests/spark/kills.py --kills $(KILLS) --seed $(SEED) $(ARGS)

# A minute.
archive-kills: KILLS = 50
archive-kills: setup ## an archiver, killed at random moments beside a writer; no message may be lost
	@PYTHONPATH=tests $(BIN)/python tests/crash/archive_kills.py --kills $(KILLS) --seed $(SEED) $(ARGS)

# Two minutes.
sink-kills: KILLS = 50
sink-kills: setup ## commits of the Spark sink, killed at random moments; no row may be lost or doubled
	@PYTHONPATH=tests $(BIN)/python tests/crash/sink_kills.py --kills $(KILLS) --seed $(SEED) $(ARGS)

# Two minutes. Needs Chromium, and says how to get it; CI has none, so it is not part of `make test`.
ui-check: setup ## the pages of `mqstore ui` in a headless Chromium: safe, whole, readable
	@$(BIN)/python -c 'import playwright, axe_playwright_python' 2>/dev/null || $(BIN)/python -m pip install --quiet --editable '.[browser]'
	@$(BIN)/python -m pytest tests/browser -o 'norecursedirs=.* build dist' -p no:benchmark -q $(ARGS)

# Three minutes, most of them for the wheel, whose loops need no numba. ARGS="--messages 100000" for fewer.
bench-ui: setup ## how long pages of `mqstore ui` take over 1,000,000 messages, and the memory; writes benchmarks/results/ui_pages.json
	@rm -rf $(SERVED) build/lib build/lib.* build/bdist.*
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(SERVED)/wheel .
	@$(BIN)/python -m venv $(SERVED)/installed
	@$(SERVED)/installed/bin/python -m pip install --quiet "$$(ls $(SERVED)/wheel/*.whl)[ui]"
	@$(BIN)/python benchmarks/ui_pages.py --python $(CURDIR)/$(SERVED)/installed/bin/python \
	    $(if $(ARGS),,--json benchmarks/results/ui_pages.json) $(ARGS)

# `make test-slow` has all but those that start a JVM. ARGS="-k howto" runs a part.
pages: setup ## every code block of README and of the pages is run, and what it prints is compared
	@$(BIN)/python -m pytest tests/pages -n 2 --dist loadgroup -p no:benchmark $(ARGS)

spark-pages: setup ## those of the pages that start a JVM: README and the pages about Spark and DataFrames
	@$(BIN)/python -m pytest tests/pages -m jvm_page -p no:benchmark $(ARGS)

docs: setup ## write the tables that pages take from the code: the rooms in ARCHITECTURE.md
	@$(BIN)/python tests/support/room_table.py

# Fetches what each extra needs, Spark too: 2 GB of room for a while.
release-files: setup ## measure the installation of the wheel and of each extra; writes docs/installation_sizes.md, docs/licences.md
	@rm -rf build/release build/lib build/lib.* build/bdist.*
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/release .
	@$(BIN)/python tests/support/release_files.py build/release/mqstore-*.whl

# Strict: a link within the site that leads nowhere fails. It needs nothing but the package index; half a minute.
site: setup ## the documentation site, into build/site
	@mkdir -p build/reference  # mkdocstrings passes over a folder that is not there when it begins
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/site/index.html: $$(find build/site -name '*.html' | wc -l) pages"

# Needs Chromium (Debian: apt-get install chromium). Fetches Playwright the first time. ARGS="--shots build/shots" keeps pictures.
site-check: site ## every page of the site in a browser: no request to elsewhere, axe, links, a phone's width
	@$(BIN)/python -c 'import axe_playwright_python, playwright' 2>/dev/null || $(BIN)/python -m pip install --quiet --editable '.[browser]'
	@$(BIN)/python docs/site/check.py build/site $(ARGS)

clean: ## take away everything that make made, .venv too
	@rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
