"""Runs the calls out of an actor's tasks: an event loop and threads, beside the thread of the stream loop."""
