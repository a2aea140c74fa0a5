"""State stores: what a processor may keep, where it lies, and how it is written to its changelog."""
