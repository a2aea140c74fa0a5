"""Runs a topology over history: PySpark reads what topics hold, runs the tasks, and hands their state over."""
