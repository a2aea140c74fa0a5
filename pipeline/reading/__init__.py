"""Sources of history, and the order in which a task takes their records."""
