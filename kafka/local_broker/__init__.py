"""A real Apache Kafka on this machine: its jars, a Java to run them, its nodes' files and processes."""
