"""Stream actors, which host tasks: consume, process, commit, answer queries. The modules here are the values that
travel between actors, and what all subpackages share.
"""
