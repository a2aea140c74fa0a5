"""The Processor API: operators that a user writes as a class, and what they bring along."""
