# Everything below sets up what it needs by itself: a virtual environment, pinned packages, the broker's jars.
# Needed on the machine: make, and Python 3.11 or newer with venv.

.DEFAULT_GOAL := help
# Without the modules' bytecode, each process of Ray and of the tests compiles them again.
export PYTHONDONTWRITEBYTECODE :=
.PHONY: help demo demo-backfill demo-pipeline test quick test-submission test-change test-long test-live check page chaos faults simulate simulate-coordinator golden fuzz-parity restored system-test docs wheel bench bench-recovery bench-failover bench-rollout bench-latency bench-pipeline bench-page versions lock clean environment jars

suitable = import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,\
	$(shell $(name) -c '$(suitable)' >/dev/null 2>&1 && echo $(name))))
RUN := .venv/bin/python

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: environment jars  ## count the words of Python's own sources, live, on a real Kafka and a local Ray
	@$(RUN) -m penstock.cli.demo

demo-backfill: environment jars  ## the same, half of it by Spark over history
	@$(RUN) -m penstock.cli.demo --backfill

demo-pipeline: environment jars  ## a day in small: ingest, a live application, archive, a new version with its history by Spark, audit
	@$(RUN) -m penstock.cli.demo_pipeline $(if $(VIEWS),--views $(VIEWS))

# Three processes on two cores, if tests wait for Kafka and Ray. If one of them dies, the run ends: pytest-xdist would play
# its tests again for ever.
TESTS = $(if $(SEED),PYTHONHASHSEED=$(SEED)) $(RUN) -m pytest $(if $(SEED),--hypothesis-seed=$(SEED)) \
	--max-worker-restart=0 --dist=loadgroup --no-loadscope-reorder --numprocesses
test: environment jars  ## run the tests, except slow ones, in three processes; EXAMPLES=10: ten times as many random examples; SEED=7: the same ones each time
	@$(TESTS) 3

test-submission: environment jars  ## run the slow tests that each submission must pass
	@$(TESTS) 3 -m "submission and not long"

test-change: environment jars  ## run the tests of both at once, as CI does: one collection, and no process waits for the end of the other
	@$(TESTS) 3 -m "not long and not faults"

QUICK = tests/architecture tests/common tests/simulation tests/state tests/tasks tests/testing tests/topology
quick: environment  ## run the tests that need no Ray, Kafka or Spark, except slow ones: for the inner loop
	@$(TESTS) 2 $(QUICK)

test-long: environment jars  ## run all slow tests, for half an hour
	@$(TESTS) 3 -m "submission or long"

test-live: environment jars  ## play all parity cases live and by Spark, on four partitions, for hours; ONLY=windowed,cogroup plays some
	@$(RUN) -m tests.live $(if $(HOW),--how $(HOW)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) $(if $(KEEP),--keep $(KEEP))

check: environment  ## lint, format, types, style of texts, in Python and in the page's TypeScript; the page's unit tests
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@$(RUN) -m tests.architecture.style
	@$(RUN) requirements/page.py check

page: environment  ## build the page of page/ into api/page/static/, which is committed, after the types of the server's documents
	@$(RUN) requirements/page.py types
	@$(RUN) requirements/page.py build

wheel: environment  ## build the wheel of this machine's Python into dist/, with the compiled modules
	@$(RUN) requirements/wheel.py

docs: environment  ## build the documentation site into site/; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

SECONDS ?= 300
chaos: environment jars  ## kill and stop everything, for SECONDS=300, from SEED=…, under GUARANTEE=exactly_once_v2, on NODES=1 of Ray, ONLY=… faults, PROGRAM=timed; then prove that nothing was lost
	@$(RUN) -m penstock.testing.chaos $(if $(PROGRAM),penstock.testing.chaos.$(PROGRAM):$(PROGRAM)) --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(GUARANTEE),--guarantee $(GUARANTEE)) $(if $(NODES),--nodes $(NODES)) $(if $(ONLY),--only $(ONLY))

faults: environment jars  ## play each row of the fault matrix alone and print what held; ONLY=12,13 plays some
	@$(RUN) -m tests.faults $(if $(ONLY),--only $(ONLY))

simulate: environment  ## play the whole cluster in virtual time for SECONDS=60, from SEED=…, at most SEEDS=…; PLANTED=1 finds known mistakes
	@PYTHONHASHSEED=0 $(RUN) -m tests.simulation --seconds $(if $(filter file,$(origin SECONDS)),60,$(SECONDS)) $(if $(SEED),--seed $(SEED)) \
		$(if $(SEEDS),--seeds $(SEEDS)) $(if $(ONLY),--only $(ONLY)) $(if $(PLANTED),--planted)

simulate-coordinator: environment  ## play the coordinator alone, with simulated actors, for SECONDS=60, from SEED=…: thousands of schedules a minute
	@$(RUN) -m tests.cluster.simulate --seconds $(if $(filter file,$(origin SECONDS)),60,$(SECONDS)) $(if $(SEED),--seed $(SEED))

golden: environment  ## play the parity corpus on KAFKA_STREAMS=4.3.1 and say what changed; WRITE=1 keeps it
	@$(RUN) -m tests.parity.golden $(if $(KAFKA_STREAMS),--kafka-streams $(KAFKA_STREAMS)) $(if $(WRITE),--write)

fuzz-parity: environment  ## play random cases on Kafka Streams and penstock, for SECONDS=300, from SEED=…; KEEP=1 keeps what differs; MODEL=1: what Kafka Streams lacks alone; BACKFILLED=1: in backfills alone; EXACTLY_ONCE=1: under exactly once alone, with faults
	@$(RUN) -m tests.parity.fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(CASE),--case $(CASE)) \
		$(if $(MODEL),--model) $(if $(BACKFILLED),--backfilled) $(if $(EXACTLY_ONCE),--exactly-once) $(if $(KEEP),--keep) $(if $(KAFKA_STREAMS),--kafka-streams $(KAFKA_STREAMS))

SHARE ?= 0.1
restored: environment jars  ## have Kafka Streams restore what penstock wrote to changelogs, for SHARE=0.1 of the corpus from SEED=1
	@$(RUN) -m tests.parity.restored --share $(SHARE) $(if $(SEED),--seed $(SEED))

system-test: environment jars  ## run Kafka Streams' own system tests while penstock runs their programs and is killed, for some 8 minutes, from SEED=…; SHORT=1
	@$(RUN) -m tests.system $(if $(SEED),--seed $(SEED)) $(if $(SHORT),--short)

bench: environment jars  ## compare with Kafka Streams on Java, for half an hour to an hour; writes docs/BENCHMARKS.md
	@$(RUN) -m benchmarks

bench-recovery: environment jars  ## restore 6 M changelog records, side by side with Kafka Streams, some 10 minutes; RECORDS=600000 REPEAT=1: one or two
	@$(RUN) -m benchmarks.recovery $(if $(RECORDS),--records $(RECORDS)) $(if $(REPEAT),--repeat $(REPEAT))

bench-failover: environment jars  ## kill -9 of the busiest stream actor: how long results stay away, some 5 minutes; MEGABYTES=1000 STANDBYS=1 GUARANTEE=…; JAVA=1 kills Kafka Streams, with SESSION_MS=45000, for about a minute more each kill
	@$(RUN) -m benchmarks.failover $(if $(MEGABYTES),--megabytes $(MEGABYTES)) $(if $(STANDBYS),--standbys $(STANDBYS)) \
		$(if $(GUARANTEE),--guarantee $(GUARANTEE)) $(if $(KILLS),--kills $(KILLS)) $(if $(LOSE_DISK),--lose-disk) \
		$(if $(JAVA),--java) $(if $(SESSION_MS),--session-ms $(SESSION_MS))

bench-rollout: environment jars  ## deploy a new version on three nodes: how long each task is silent, some 3 minutes; CPUS=2 of each node, GUARANTEE=…
	@$(RUN) -m benchmarks.rollout $(if $(CPUS),--cpus $(CPUS)) $(if $(GUARANTEE),--guarantee $(GUARANTEE)) $(if $(MEGABYTES),--megabytes $(MEGABYTES))

bench-latency: environment jars  ## end-to-end latency at RATE=10000 records/s and at half of capacity, through a kill -9, side by side with Kafka Streams, some 5 minutes; GUARANTEE=…
	@$(RUN) -m benchmarks.latency $(if $(RATE),--rate $(RATE)) $(if $(GUARANTEE),--guarantee $(GUARANTEE)) \
		$(if $(REPEAT),--repeat $(REPEAT)) $(if $(SESSION_MS),--session-ms $(SESSION_MS))

bench-pipeline: environment jars  ## archive, ingest, backfill, checkpoints and audit at SHARE=1 of 5 M records, REPEAT=3 runs, for one to two hours; ONLY=archive,audit; writes its section of docs/BENCHMARKS.md
	@$(RUN) -m benchmarks.pipeline $(if $(filter command line,$(origin SHARE)),--share $(SHARE)) $(if $(REPEAT),--repeat $(REPEAT)) $(if $(ONLY),--only $(ONLY))

bench-page: environment jars  ## the page in a browser, and its cost to an application, some 30 minutes; CHANGES=3600 RECORDS=8000000 REPEAT=5; writes its section of docs/BENCHMARKS.md
	@$(RUN) -m benchmarks.page $(if $(CHANGES),--changes $(CHANGES)) $(if $(RECORDS),--records $(RECORDS)) $(if $(REPEAT),--repeat $(REPEAT))

versions: environment jars  ## play the tests that depend on them with the lowest and the highest versions that may be installed; ONLY=oldest|newest, PYTHON=python3.13
	@$(PYTHON) requirements/versions.py $(ONLY)

lock: environment  ## write requirements/*.txt again from pyproject.toml
	@$(RUN) requirements/lock.py

clean:  ## remove the environment and all caches of this folder
	rm -rf .venv .venv.lock .editable .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build kafka/*.so common/*.so state/*/*.so tasks/operators/*.so page/node_modules .page.lock

environment:
	@$(if $(strip $(PYTHON)),,$(error penstock needs Python 3.11, 3.12 or 3.13; say where one is: make PYTHON=/path/to/python))
	@$(PYTHON) requirements/install.py

jars: environment
	@$(RUN) -m penstock.kafka.local_broker.jars
