"""Programs to read and to run, each one idea further than the last."""
