"""Runs applications on Ray: coordinator, group membership, assignor, internal topics, queries, ``KafkaStreams``."""
