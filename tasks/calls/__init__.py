"""Calls out: the machine that decides about each call, the calls of one task, and the loop over records that may hold
them. What a call is and who runs it: :class:`~penstock.tasks.contracts.CallRunner`."""
