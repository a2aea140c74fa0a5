"""The coordinator's memory of the last hour: samples of all figures, and a list of events. Bounded to 5 MB. Pure.

``history.py`` is what the coordinator calls; the values that it answers with are in ``cluster/application_history.py``.
"""
