"""One task on its actor: active or standby, its stores in its directory, its positions, its measurements."""
