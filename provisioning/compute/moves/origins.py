"""The exports of a guest's disks, as its host reports them, validated before another host opens them."""

import logging
import re

import msgspec

from compute_agent.contract.certificates import tls_hostname
from compute_agent.contract.moves import (
    FLAT,
    MOST_DISKS,
    ORIGIN,
    ROOT,
    GuestOrigin,
    root_pool_trait,
    root_pool_traits,
)
from provisioning.compute.host_link.outcome import Outcome
from provisioning.hosts import addresses
from provisioning.hosts.models import Host
from provisioning.volumes.host_link.connections import PORTS

log = logging.getLogger(__name__)

MOST_BYTES = 1 << 50
_NAME = re.compile(rf"{ROOT}|{re.escape(FLAT)}|ephemeral|swap|local-\d{{1,2}}", re.ASCII)
_BASE = re.compile(r"[a-z0-9-]{0,200}", re.ASCII)


def origin_of(outcome: Outcome, source: Host, target: Host) -> GuestOrigin | None:
    """Return the exports that the source reports, with its address as seen from the target. None if the report is not
    valid.

    The address and the name in the certificate are the recorded ones: a host cannot name another host.
    """
    try:
        origin = msgspec.json.decode(outcome.detail.get(ORIGIN, ""), type=GuestOrigin)
    except (msgspec.DecodeError, UnicodeError):
        return None
    names = [disk.name for disk in origin.disks]
    valid = (
        len(names) <= MOST_DISKS
        and len(set(names)) == len(names)
        and all(_NAME.fullmatch(name) for name in names)
        and all(0 <= disk.size <= MOST_BYTES for disk in origin.disks)
        and _BASE.fullmatch(origin.base) is not None
        and (not origin.root_pool or root_pool_trait(origin.root_pool) in root_pool_traits(target.traits))
    )
    if not valid or (names and origin.port not in PORTS):
        log.warning("Host %s reported invalid exports of a guest: %s", source.name, origin)
        return None
    if not names:
        return GuestOrigin(root_pool=origin.root_pool)
    address = addresses.seen_from(target, source)
    if not address:
        return None
    return msgspec.structs.replace(origin, address=address, tls_hostname=tls_hostname(str(source.id)))
