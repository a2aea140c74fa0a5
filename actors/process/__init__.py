"""The process of a stream actor: the Ray actor around the loop, its raylet, its memory, its end.

``stream_actor.py`` has the calls for other actors.
"""
