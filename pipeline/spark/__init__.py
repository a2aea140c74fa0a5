"""The Spark session: its settings, the code and the checks of its executors, its progress, its errors."""
