"""Calls out: the machine that decides about each call, the calls of one task, and the loop over records that may be
stopped for them. :class:`~penstock.tasks.contracts.CallRunner` runs the calls."""
