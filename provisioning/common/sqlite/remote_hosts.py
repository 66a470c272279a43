"""A file in the database's folder that records that hosts on other machines use the cloud.

When this machine loses power, such hosts continue with the commands they have received, so the database must sync
commands to disk before it sends them. Hosts on this machine fail together with it.
"""

import contextlib
import os
import socket
from ipaddress import ip_address
from pathlib import Path

from django.db import connection

MARK = "remote-hosts"


def are_known(database: str) -> bool:
    """Whether a host on another machine has connected; ``database`` is the path of the file."""
    return os.path.exists(os.path.join(os.path.dirname(database), MARK))  # noqa: PTH110, PTH118, PTH120 - hot path


def note_remote_host(address: str) -> None:
    """Create the file if ``address``, from which a host has connected, does not belong to this machine."""
    database = str(connection.settings_dict["NAME"])
    if connection.vendor != "sqlite" or database.startswith((":", "file:")):
        return
    if not are_known(database) and not _is_own(address):
        with contextlib.suppress(FileExistsError):
            (Path(database).parent / MARK).touch(mode=0o600, exist_ok=False)


def _is_own(address: str) -> bool:
    """Whether an address belongs to this machine; True for text that is not an address."""
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
