"""Asks a running application: stores by key and range, stores as objects, metrics.

``queries.py`` is the read side over actor calls (``cluster/read_side.py`` has the protocol); ``store_view.py`` has the
stores that programs see.
"""
