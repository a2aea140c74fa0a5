"""One program that grows, step by step: docs/TUTORIAL.md."""
