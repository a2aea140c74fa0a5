"""One simulation of the whole cluster, in virtual time, from one seed.

**Production code**: the coordinator's state machine and dispatcher, the calls to stream actors and those of stream
actors to their coordinator, the stream loop, tasks, operators, stores (in memory with the contract of the disk, or
RocksDB), standbys, global tables, restore, and the client logic of exactly once.

**Simulated**: Ray (``actor_process.py``: messages that take their time, processes that die, freeze or lose their node's
network), Kafka (``simulated_kafka.py``: the in-memory broker with outages, leaders that move, transactions that expire;
``simulated_group.py``: members, sessions, rebalances), and time (``virtual_clock.py``).

One run (``world.py``): a program (``programs.py``) reads records that a feeder writes, while faults are drawn from the
seed (``faults.py``). Then the faults end, everything must come to rest, and ``checks.py`` compares the results with
those of one task host without faults, and the stores with their changelogs. An actor that the coordinator ends although
nothing is wrong with it, an actor that ends itself, and an application that ends in ERROR are violations, too.

``make simulate SECONDS=60 SEED=7`` plays as many seeds as there is time for. ``PLANTED=1`` plants known mistakes
(``mistakes.py``) and reports the first seed that finds each.
"""
