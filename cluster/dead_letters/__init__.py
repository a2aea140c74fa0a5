"""The records that an application could not process: reads, counts and replays the letters of a dead letter topic."""
