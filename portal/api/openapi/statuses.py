"""The status of a success, where it is not what its method has everywhere; of a resource that only refuses, that one.

tests/security/routes.txt knows what every route really answers; tests/openapi compares.
"""

from __future__ import annotations

USUAL = {"GET": 200, "POST": 201, "PUT": 200, "PATCH": 200, "DELETE": 204}
OTHER: dict[int, tuple[str, ...]] = {}


def status_of(method: str, path: str) -> int:
    """Return the status of a good answer."""
    return _BY_OPERATION.get(f"{method} {path}", USUAL[method])


_BY_OPERATION = {operation: status for status, operations in OTHER.items() for operation in operations}
