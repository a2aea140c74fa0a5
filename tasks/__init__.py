"""The task: one sub-topology × one partition, as a pure machine. Records and clock readings in; sink records, state
changes and punctuations out. Knows no Ray, no Kafka client, no Spark, no thread, no clock."""
