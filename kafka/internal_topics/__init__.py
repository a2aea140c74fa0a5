"""The internal topics of an application: created, known again at a later start, purged behind commits.

``creation.py`` gets the plan of them from ``topology/physical/topic_plan.py``. At a start,
``cluster/coordinator_shell/first_plan.py`` plans, creates and notes them.
"""
