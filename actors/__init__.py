"""The Ray actor that hosts tasks: consumes, processes, commits, answers queries."""
