"""A file beside the database marks that hosts on other machines work with it.

When the power of this machine fails, such hosts go on with what they were told.  So what they were told must be on the
disk here.  Hosts on this machine fail with it.
"""

import contextlib
import os
import socket
from ipaddress import ip_address
from pathlib import Path

from django.db import connection

MARK = "remote-hosts"


def are_known(database: str) -> bool:
    """Return whether a host on another machine has been heard of; ``database`` is the path of the file."""
    return os.path.exists(os.path.join(os.path.dirname(database), MARK))  # noqa: PTH110, PTH118, PTH120 - asked often


def heard_from(address: str) -> None:
    """Hear that a host has this address: unless it is one of this machine, mark the database."""
    database = str(connection.settings_dict["NAME"])
    if connection.vendor != "sqlite" or database.startswith((":", "file:")):
        return
    if not are_known(database) and not _is_own(address):
        with contextlib.suppress(FileExistsError):
            (Path(database).parent / MARK).touch(mode=0o600, exist_ok=False)


def _is_own(address: str) -> bool:
    """Return whether an address is one of this machine; text that is no address counts as its own."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return True
    if parsed.is_loopback:
        return True
    family = socket.AF_INET6 if parsed.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(parsed), 0))
    except OSError:
        return False
    return True
