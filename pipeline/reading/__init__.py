"""Records of topics as data frames, in the order in which a live task would take them."""
