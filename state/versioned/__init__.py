"""Versioned stores: of each key its latest value and those before it; and the buffer of joins that look into them."""
