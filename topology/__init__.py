"""The program: DSL and Processor API, built into a topology, which is a value. Nothing here runs a record."""
