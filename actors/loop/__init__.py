"""The stream loop: the thread that reads, processes, commits and answers for the tasks of one actor.

``stream_loop.py`` takes the orders and has the loop itself; the other modules are its parts.
"""
