"""The programs of docs/coming-from, which the pages show beside those of other libraries."""
