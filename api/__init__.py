"""The HTTP API over the read side: queries, status, health and metrics. Knows no Ray and no Kafka, except in
``kafka_streams.py``, which gives the application of ``cluster/`` this server."""
