"""Measurement of operators in runs that are picked: the edges between them are timed, and then plain again."""
