"""The account that dnsmasq runs as. It is not root, because dnsmasq parses packets from guests."""

import grp
import pwd
from dataclasses import dataclass

AUTO = "auto"
KNOWN = ("novella-dhcp", "dnsmasq", "nobody")
"""Accounts that ``auto`` looks for: the one that bin/up creates, the distribution's own, and dnsmasq's default."""


@dataclass(frozen=True)
class DhcpUser:
    """A user and its primary group, by the names that dnsmasq looks up."""

    name: str = "root"
    group: str = "root"
    gid: int = 0


def choose(configured: str) -> DhcpUser:
    """Return the account with this name; for ``auto``, the first known one that exists. Raises ValueError if there is
    none.
    """
    for name in KNOWN if configured == AUTO else (configured,):
        try:
            gid = pwd.getpwnam(name).pw_gid
            return DhcpUser(name, grp.getgrgid(gid).gr_name, gid)
        except KeyError:
            continue
    raise ValueError(f"there is no user {configured!r} with a group for dnsmasq")
