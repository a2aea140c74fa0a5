"""Kafka, behind small contracts: consumer, producer, admin, group member; and a real local broker."""
