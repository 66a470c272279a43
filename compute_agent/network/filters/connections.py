"""Ends tracked connections that are allowed no more: what is established passes without asking the rules again."""

import errno
import socket
from collections.abc import Collection
from typing import Any

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.nfnetlink.nfctsocket import NFCTAttrTuple, NFCTSocket

from compute_agent.virt.errors import RetryableHostError

FAMILIES = (socket.AF_INET, socket.AF_INET6)
ADDRESSES = ("CTA_IP_V4_SRC", "CTA_IP_V4_DST", "CTA_IP_V6_SRC", "CTA_IP_V6_DST")


def forget_flows(zone: int, addresses: Collection[str]) -> int:
    """Forget the flows of a zone from and to these addresses; return how many.

    One that is still allowed goes on: its next packet in the right direction is a new connection to the kernel.  Raises
    RetryableHostError.
    """
    many = 0
    try:
        for family in FAMILIES:
            with NFCTSocket(nfgen_family=family) as tracking:
                for entry in [entry for entry in tracking.dump() if _is_one(entry, zone, addresses)]:
                    many += _forget(tracking, entry, family, zone)
    except (NetlinkError, OSError) as error:
        raise RetryableHostError("The host could not end connections of guests.", detail=str(error)) from error
    return many


def _is_one(entry: Any, zone: int, addresses: Collection[str]) -> bool:
    if (entry.get_attr("CTA_ZONE") or 0) != zone:
        return False
    tuple_ = entry.get_attr("CTA_TUPLE_ORIG")
    ends = tuple_.get_attr("CTA_TUPLE_IP") if tuple_ is not None else None
    return ends is not None and any(ends.get_attr(name) in addresses for name in ADDRESSES)


def _forget(tracking: Any, entry: Any, family: int, zone: int) -> int:
    found = NFCTAttrTuple.from_netlink(family, entry.get_attr("CTA_TUPLE_ORIG"))
    try:
        tracking.entry("del", tuple_orig=found, zone=zone)
    except NetlinkError as error:
        if error.code != errno.ENOENT:  # it ended by itself
            raise
        return 0
    return 1
