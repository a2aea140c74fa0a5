"""The internal topics of an application: creates them, notes them for later starts, purges records after commits.

``creation.py`` gets their plan from ``topology/physical/topic_plan.py``. At a start,
``cluster/coordinator_shell/first_plan.py`` plans, creates and notes them.
"""
