"""The option objects of the DSL, named as in Kafka Streams, and the stores that they describe."""
