"""The physical topology: nodes, sub-topologies, their description, and the plan of tasks and topics."""
