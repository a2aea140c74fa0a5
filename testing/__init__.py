"""Tests without a cluster: the topology test driver, and a broker in memory."""
