"""The HTTP API over the read side: queries, status, health and metrics. Knows no Ray and no Kafka."""
