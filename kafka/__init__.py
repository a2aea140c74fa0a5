"""Kafka, behind small contracts: consumer, producer, admin, group member; in a room of its own, a real local broker."""
