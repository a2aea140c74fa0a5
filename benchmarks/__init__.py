"""Kafka Streams on Java and penstock side by side, look-ups over HTTP, a profile of the task: ``make bench``."""
