"""The logical graph: what the calls add, and what the optimiser makes of it."""
