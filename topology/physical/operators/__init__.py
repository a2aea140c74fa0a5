"""Operators of the DSL as values. ``tasks/operators/`` has the closure of each, in the module of the same name.

``operator.py`` declares what the engine must know of an operator.
"""
