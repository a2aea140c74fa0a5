"""Checkpoints in object storage: files of a task's stores, named by content, and manifests that make them whole."""
