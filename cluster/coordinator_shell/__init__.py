"""Everything around the coordinator's state machine: its Ray actor, its group membership, its calls to stream actors.

``coordinator_actor.py`` is what others call, ``dispatch.py`` carries out what the machine decides, and
``periodic_work.py`` repeats what the watches look at.
"""
