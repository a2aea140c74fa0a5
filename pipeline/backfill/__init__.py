"""``penstock backfill``: planned, run stage by stage, handed over to the live application."""
