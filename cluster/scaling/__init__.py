"""The number of stream actors, from the load, from CPUs, from users.

``scaling.py`` advises by ``load.py``; ``scaling_watch.py`` gives the state machine a number, which ``elasticity.py``, a
part of that machine, turns into actors that start or end. Users change it by ``client/actor_changes.py``.
"""
