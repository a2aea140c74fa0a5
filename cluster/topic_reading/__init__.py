"""Reads records of an application's topics from outside, for people: bounded, decoded, without a consumer group."""
