"""The program of an application: as bytes that travel, and its versions.

``rollouts.py`` is a part of the state machine; ``deploy_rules.py`` decides which versions may run side by side.
"""
