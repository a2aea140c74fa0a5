"""Object storage: whole objects below a URL, created only if absent, and logs of numbered manifests over them."""
