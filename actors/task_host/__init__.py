"""One task on its actor: active or standby, its stores and their directory, its positions, its measurements."""
