"""Ends tracked connections through a floating IP whose target has changed. Otherwise the kernel would keep their old
target until they end.
"""

import errno
import socket
from collections.abc import Collection
from typing import Any

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.nfnetlink.nfctsocket import NFCTAttrTuple, NFCTSocket

from compute_agent.virt.errors import RetryableHostError


def forget(addresses: Collection[str]) -> int:
    """Delete tracked flows to and from these floating IPs in the calling thread's namespace. Return their number.

    All other flows continue. Raises RetryableHostError.
    """
    if not addresses:
        return 0
    try:
        with NFCTSocket() as tracking:
            entries = [entry for entry in tracking.dump() if _passes(entry, addresses)]
            for entry in entries:
                _forget(tracking, entry)
    except (NetlinkError, OSError) as error:
        raise RetryableHostError("The host could not end connections of a floating IP.", detail=str(error)) from error
    return len(entries)


def _passes(entry: Any, addresses: Collection[str]) -> bool:
    """Return whether the flow's external side has one of the addresses: as its target, or as the target of
    its replies.
    """
    seen = [entry.get_attr(name).get_attr("CTA_TUPLE_IP") for name in ("CTA_TUPLE_ORIG", "CTA_TUPLE_REPLY")]
    return any(each is not None and each.get_attr("CTA_IP_V4_DST") in addresses for each in seen)


def _forget(tracking: Any, entry: Any) -> None:
    try:
        tracking.entry("del", tuple_orig=NFCTAttrTuple.from_netlink(socket.AF_INET, entry.get_attr("CTA_TUPLE_ORIG")))
    except NetlinkError as error:
        if error.code != errno.ENOENT:  # it ended by itself
            raise
