"""The same object storage as for the conformance of that."""

from tests.objects.conftest import objects, s3_server

__all__ = ["objects", "s3_server"]
