"""State stores: the data that processors keep, on disk or in memory, and its form in the changelogs."""
