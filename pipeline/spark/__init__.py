"""The Spark session, and its progress."""
