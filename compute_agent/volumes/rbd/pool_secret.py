"""The secret of a pool of Ceph, stored as an object in the pool. It gives access to the pool's data."""

import secrets

from compute_agent.volumes.driver import SECRET_BYTES
from compute_agent.volumes.rbd.images import CephError
from compute_agent.volumes.rbd.location import CephLocation
from compute_agent.volumes.rbd.pool_lock import pool_lock, rados

OBJECT = "novella.secret"
STREAM = "-"
"""The program's name for its own input and output."""


def pool_secret(location: CephLocation) -> str:
    """Return the pool's secret. The first call of any host creates it. Raises CephError."""
    result = _read(location)
    if not result:
        with pool_lock(location):
            result = _read(location) or _create(location)
    return result


def _read(location: CephLocation) -> str:
    try:
        return rados(location, "get", OBJECT, STREAM).decode().strip()
    except CephError as error:
        if "(2)" in error.detail:  # ENOENT; the exit code is only 1
            return ""
        raise


def _create(location: CephLocation) -> str:
    created = secrets.token_hex(SECRET_BYTES)
    rados(location, "put", OBJECT, STREAM, stdin=created.encode())
    return created
