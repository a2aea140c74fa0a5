"""State stores: the records that a processor may keep, on disk or in memory, and their way to a changelog.

The modules here are what all kinds of stores share: the contracts of the engine (``contracts.py``) and of processors
(``views.py``), queries, builders. ``stores.py`` makes each kind.
"""
