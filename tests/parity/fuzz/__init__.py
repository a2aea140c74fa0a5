"""Random parity cases, played on Kafka Streams and on penstock: ``make fuzz-parity SECONDS=… SEED=…``."""
