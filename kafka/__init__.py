"""Kafka, behind small contracts: consumer, producer, admin, group member. A subpackage has a real local broker."""
