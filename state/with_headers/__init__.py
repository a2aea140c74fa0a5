"""Stores that keep the headers of records beside values: KIP-1271."""
