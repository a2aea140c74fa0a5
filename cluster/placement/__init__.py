"""Decides where tasks and standbys run. Pure: a part of the coordinator's state machine.

``task_placer.py`` decides by the two assignors. ``scaling/scaling.py`` asks for the effect of more or fewer actors.
"""
