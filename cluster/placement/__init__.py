"""Decides where tasks and standbys run. Pure: the state machine asks, and the advice on the number of actors.

``task_placer.py`` decides; the assignors balance.
"""
