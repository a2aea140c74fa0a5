"""The command line: ``penstock …``. Each module registers its commands; ``main`` mounts them."""
