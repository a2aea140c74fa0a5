"""The chaos harness, and the short kill test of it."""
