"""The standbys of an actor: opened, kept up with their changelogs, promoted, closed."""
