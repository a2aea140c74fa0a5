"""Who runs what: the coordinator, its group membership, the assignor, internal topics, queries, ``KafkaStreams``."""
