"""Keys and values as bytes, in a store and in its changelog."""
