"""The changes of a store between two commits, as objects, over its committed rows.

``write_buffer.py`` is the buffer, ``buffered_store.py`` the base of the stores that have one. The other modules are the
parts of the buffer, and the memory that all buffers of a thread share.
"""
