"""One simulation of the whole cluster, in virtual time, from one seed.

**Production code**: the coordinator's state machine and dispatcher, the calls to stream actors and those of stream
actors to their coordinator, the stream loop, tasks, operators, stores (in memory with the contract of the disk, or
RocksDB), standbys, global tables, restore, checkpoints, and the client logic of exactly once.

**A copy**: the Ray actor of the coordinator, with its periodic work (``coordinator_process.py``). A change of the order
in which a coordinator begins, or of what it looks at, must be made there, too.

**Simulated**: Ray (``actor_process.py``: processes that die, freeze or lose their node's network; ``simulated_ray.py``:
calls that take their time), disks in two of three runs (``simulated_disk.py``), Kafka (``simulated_kafka.py``: the
in-memory broker with outages, leaders that move, transactions that expire; ``simulated_group.py``: members, sessions,
rebalances), object storage (``simulated_objects.py``: slow, with requests that have no answer), calls out
(``simulated_calls.py``: they last, and fail), the threads that
wait for object storage (``simulated_threads.py``), and time (``virtual_clock.py``).

One run (``world.py``): the seed draws its setting (``setting.py``, ``swarm.py``). A program (``programs.py``) reads
records that a feeder writes, while faults (``faults.py``) and operations of people (``operations.py``) befall it. Then
the faults end, and everything must come to rest. ``checks.py`` compares the results with those of one task host
without faults, ``play.py`` the stores of tasks and standbys with their changelogs, and ``checked_checkpoints.py`` shows
that the newest checkpoints are whole. An actor that the coordinator
ends although nothing is wrong with it, an actor that ends itself, and an application that ends in ERROR are violations,
too.

``make simulate SECONDS=60 SEED=7`` plays as many seeds as there is time for. ``PLANTED=1`` plants known mistakes
(``mistakes.py``) and reports the first seed that finds each.
"""
