"""The Processor API: operators that a user writes as a class, and their stores."""
