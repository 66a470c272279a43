"""A lock that all hosts of a pool of Ceph share; one whose holder dies is free again by itself."""

import contextlib
import json
import time
import uuid
from collections.abc import Iterator

from compute_agent.virt.programs import ProgramError, run_program
from compute_agent.volumes.rbd.images import QUICK, CephError
from compute_agent.volumes.rbd.location import CephLocation

OBJECT, NAME = "novella.lock", "rename"
LASTS = 2 * QUICK.seconds
"""Seconds until the cluster takes the lock from who has not given it back: longer than what is done under it takes."""
RETRY = 0.2
"""Seconds between two tries."""


@contextlib.contextmanager
def pool_lock(location: CephLocation) -> Iterator[None]:
    """Hold the lock of the pool for a call or two of Ceph's programs.  Raises CephError."""
    cookie = str(uuid.uuid4())
    _take(location, cookie)
    try:
        yield
    finally:
        with contextlib.suppress(CephError, StopIteration):  # it ends by itself
            holders = json.loads(_rados(location, "info", OBJECT, NAME))["lockers"]
            holder = next(each["name"] for each in holders if each["cookie"] == cookie)
            _rados(location, "break", OBJECT, NAME, holder, "--lock-cookie", cookie)


def _take(location: CephLocation, cookie: str) -> None:
    deadline = time.monotonic() + LASTS + QUICK.seconds
    while True:
        try:
            _rados(location, "get", OBJECT, NAME, "--lock-cookie", cookie, "--lock-duration", str(int(LASTS)))
        except CephError as error:
            if "(16)" not in error.detail or time.monotonic() > deadline:  # EBUSY, which rados exits with 1 for
                raise
            time.sleep(RETRY)
        else:
            return


def _rados(location: CephLocation, *words: str) -> bytes:
    try:
        return run_program("rados", *location.arguments, "--pool", location.pool, "lock", *words, limits=QUICK)
    except ProgramError as error:
        raise CephError(str(error), error.number) from error
