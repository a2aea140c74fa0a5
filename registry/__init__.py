"""Serdes of Avro, Protobuf and JSON Schema, whose schemas a schema registry keeps.

``serdes.py`` has the factories, ``serde.py`` the bytes that all three formats share: a zero, the schema's id in four
bytes, the record. ``connection.py`` keeps the registry's answers, and asks it in a thread of its own.
"""
