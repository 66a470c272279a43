"""A lock that all hosts of a pool of Ceph share. It expires if its holder dies."""

import contextlib
import json
import time
import uuid
from collections.abc import Iterator

from compute_agent.virt.processes.programs import ProgramError, run_program
from compute_agent.volumes.rbd.images import QUICK, CephError
from compute_agent.volumes.rbd.location import CephLocation

OBJECT, RENAME = "novella.lock", "rename"
OWNERS = "owners"
"""The lock for changes of the host that an open image is assigned to."""
LASTS = 2 * QUICK.seconds
"""Seconds after which the cluster releases the lock of a holder that has died; longer than any use of the lock."""
RETRY = 0.2
"""Seconds between two tries."""


@contextlib.contextmanager
def pool_lock(location: CephLocation, name: str = RENAME) -> Iterator[None]:
    """Hold a lock of the pool while the block runs a few of Ceph's programs. Raises CephError."""
    cookie = str(uuid.uuid4())
    _acquire(location, name, cookie)
    try:
        yield
    finally:
        with contextlib.suppress(CephError, StopIteration):  # the lock expires
            holders = json.loads(rados(location, "lock", "info", OBJECT, name))["lockers"]
            holder = next(each["name"] for each in holders if each["cookie"] == cookie)
            rados(location, "lock", "break", OBJECT, name, holder, "--lock-cookie", cookie)


def _acquire(location: CephLocation, name: str, cookie: str) -> None:
    deadline = time.monotonic() + LASTS + QUICK.seconds
    while True:
        try:
            duration = ("--lock-duration", str(int(LASTS)))
            rados(location, "lock", "get", OBJECT, name, "--lock-cookie", cookie, *duration)
        except CephError as error:
            if "(16)" not in error.detail or time.monotonic() > deadline:  # EBUSY; the exit code is only 1
                raise
            time.sleep(RETRY)
        else:
            return


def rados(location: CephLocation, *words: str, stdin: bytes | None = None) -> bytes:
    """Run ``rados``, Ceph's program for objects, on the pool. Raises CephError."""
    try:
        command = ("rados", *location.arguments, "--pool", location.pool, *words)
        return run_program(*command, limits=QUICK, stdin=stdin)
    except ProgramError as error:
        raise CephError(str(error), error.number) from error
