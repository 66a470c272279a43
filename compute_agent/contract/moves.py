"""A stopped guest's disks, which its host exports to the host that it moves to."""

import re
from collections.abc import Iterable

from compute_agent.contract.build import Frozen

ROOT, FLAT, EPHEMERAL, SWAP, LOCAL = "root", "root.flat", "ephemeral", "swap", "local-"
"""Names of disks. ``root`` is the file of the root disk, an overlay on a cached image; ``root.flat`` is the content of
the root disk as the guest sees it; ``local-0`` … are requested empty disks.
"""
ORIGIN = "origin"
"""Key of the origin in the details of a ``SendGuestRequest``'s end."""
MOST_DISKS = 32
ROOT_POOL_TRAIT = "CUSTOM_ROOT_DISKS_IN_POOL"
"""The trait of hosts that store the root disks of guests in a pool."""
LIVE_POOL_TRAIT = "CUSTOM_LIVE_MIGRATION_IN_ROOT_POOL"
"""The trait of hosts whose running guests can be migrated with their root disks in the pool, which two hosts can open.
"""
_POOL_TRAIT = re.compile(r"CUSTOM_ROOT_POOL_([0-9A-F]{32})", re.ASCII)


def root_pool_trait(pool_id: str) -> str:
    """Return the trait of hosts that store root disks in this pool. Guests move between such hosts without a copy."""
    return f"CUSTOM_ROOT_POOL_{pool_id.replace('-', '').upper()}"


def root_pool_traits(traits: Iterable[str]) -> list[str]:
    """Return the trait among a host's traits that names its pool of root disks; empty for agents that do not move disks
    in pools.
    """
    return [trait for trait in traits if _POOL_TRAIT.fullmatch(trait)]


class SentDisk(Frozen, frozen=True):
    """A disk that the guest's previous host exports over NBD."""

    name: str
    size: int  # bytes of the export, with holes


class GuestOrigin(Frozen, frozen=True):
    """The exports of a guest's disks: read-only NBD over TLS, for one host. ``port`` 0: the guest has no such disks.

    With ``root_pool``, the id of a pool that the receiving host has as well, the root disk is in that pool, closed,
    and not among the ``disks``.
    """

    disks: list[SentDisk] = []
    base: str = ""  # the name in the image cache of the image that the root disk is based on; empty: none
    port: int = 0
    address: str = ""  # set by the portal, like ``tls_hostname``
    tls_hostname: str = ""  # the name in the certificate of the guest's host
    root_pool: str = ""


def export_of(uuid: str, disk: str) -> str:
    """Return the name of the export of a guest's disk."""
    return f"{uuid}.{disk}"
