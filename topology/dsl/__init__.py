"""The DSL: the objects on which a program's calls are made."""
