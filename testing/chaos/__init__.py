"""What hurts a cluster on purpose, so that a test can see whether it holds."""
