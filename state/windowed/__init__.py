"""Window stores and session stores: rows that expire."""
