"""Stores that keep the headers of records with values: KIP-1271."""
