"""One closure per operator: called with (key, value, timestamp), calls its successor in the same way.

Each factory takes the operator's specification and a :class:`~penstock.tasks.wiring.Wiring`, and returns the closure.
The ``try`` around a user function costs nothing until it raises (CPython 3.11+), and names the operator when it does.
"""
