"""The coordinator's state machine: events in, instructions out. No Ray, no Kafka, no clock, no thread.

``coordinator.py`` takes each event; the other modules are its parts. ``cluster/events.py`` lists what goes in and out.
"""
