"""The programs of docs/coming-from, which stand beside those of other libraries."""
