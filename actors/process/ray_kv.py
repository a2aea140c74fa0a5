"""Ray's key-value store, whose values live as long as the Ray cluster, whichever actors and processes end."""

from __future__ import annotations

from ray.experimental import internal_kv

_NAMESPACE = "penstock"


def put(key: str, value: str | bytes, *, overwrite: bool = True) -> None:
    """Store ``value``; with ``overwrite=False`` only if ``key`` has no value."""
    internal_kv._internal_kv_put(key, value, overwrite=overwrite, namespace=_NAMESPACE)


def get(key: str) -> bytes | None:
    """Returns the value of ``key``; None if it has none."""
    kept: bytes | None = internal_kv._internal_kv_get(key, namespace=_NAMESPACE)
    return kept


def delete(key: str) -> None:
    """Delete the value of ``key``. Idempotent."""
    internal_kv._internal_kv_del(key, namespace=_NAMESPACE)


def delete_all(prefix: str) -> None:
    """Delete the values of all keys that begin with ``prefix``. Idempotent."""
    internal_kv._internal_kv_del(prefix, del_by_prefix=True, namespace=_NAMESPACE)
