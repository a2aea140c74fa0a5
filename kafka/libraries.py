"""The version of librdkafka, and the use of penstock's own binding to it: for diagnosis."""

from __future__ import annotations

import confluent_kafka

from penstock.kafka.binding import binding


def librdkafka_version() -> str:
    """Returns the version of the loaded library, such as ``2.11.0``."""
    return str(confluent_kafka.libversion()[0])


def binding_is_compiled() -> bool:
    """Returns True if the compiled binding is used, and not the slower Python code."""
    return binding() is not None
