"""The kill test: a real broker, a real Ray, faults from a seed, and what must hold when they have passed.

Pure: ``schedule`` (which faults, when), ``program`` (what runs), ``checks`` (what must hold of the records). Shells:
``rig`` (broker, Ray, processes), ``strike`` (does what the schedule says), ``feeder``, ``prober``, ``rest``, and over
them ``run``. ``python -m tests.chaos --help``.
"""
