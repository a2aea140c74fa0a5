"""Ray clusters and what is in them: connections, daemons, nodes, and penstock's actors by name.

Nothing here knows what an application does.
"""
