"""Runs applications on Ray. The modules here are the contracts that the subpackages share: the events and instructions
of the state machine, its view of Ray and Kafka, the questions of readers, and names.
"""
