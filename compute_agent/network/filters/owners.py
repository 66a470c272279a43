"""Counts tracked connections by owner, by reading a sample of the kernel's table.

The table is read in the order of its buckets, which depends on a secret hash, so the first part of a large table is a
representative sample.
"""

import errno
import os
import socket
import struct
from collections import Counter
from collections.abc import Iterator, Mapping

NETLINK_NETFILTER, GET_CONNECTIONS, DUMP = 12, 0x0101, 0x0301
"""Constants of nfnetlink: IPCTNL_MSG_CT_GET of NFNL_SUBSYS_CTNETLINK, NLM_F_REQUEST with NLM_F_DUMP."""
ERROR, DONE = 2, 3
ORIGINAL, ZONE, ADDRESSES, SOURCES = 1, 18, 1, (1, 3)
"""CTA_TUPLE_ORIG, CTA_ZONE, CTA_TUPLE_IP, and CTA_IP_V4_SRC with CTA_IP_V6_SRC."""
HEAD = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")
LONGEST = 1 << 18
SAMPLE = 20_000
"""Limit of the connections that are read: a tenth of a second of processor time."""
TIMEOUT = 5.0

Owner = tuple[int, bytes]
"""A connection tracking zone and an address in it, packed."""


def count(owners: Mapping[Owner, str], sample: int = SAMPLE) -> tuple[Counter[str], int]:
    """Return the number of connections that each owner began in the calling thread's namespace, and the sample's size.

    Raises OSError.
    """
    result: Counter[str] = Counter()
    looked = 0
    for owner in _begun():
        looked += 1
        if owner in owners:
            result[owners[owner]] += 1
        if looked >= sample:
            break
    return result, looked


def _begun() -> Iterator[Owner]:
    """Yield the connection tracking zone and the source address of each tracked connection."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as netlink:
        netlink.settimeout(TIMEOUT)
        netlink.bind((0, 0))
        netlink.send(HEAD.pack(HEAD.size + 4, GET_CONNECTIONS, DUMP, 1, 0) + bytes(4))
        while True:
            answer = netlink.recv(LONGEST)
            at = 0
            while at + HEAD.size <= len(answer):
                length, kind, _, _, _ = HEAD.unpack_from(answer, at)
                if kind == DONE:
                    return
                if kind == ERROR:
                    code = -int.from_bytes(answer[at + 16 : at + 20], "little", signed=True)
                    raise OSError(code or errno.EIO, os.strerror(code or errno.EIO))
                yield _owner(answer, at + HEAD.size + 4, at + length)
                at += max(length + 3 & ~3, HEAD.size)


def _owner(message: bytes, at: int, end: int) -> Owner:
    zone, source = 0, b""
    for kind, start, stop in _attributes(message, at, end):
        if kind == ZONE:
            zone = int.from_bytes(message[start:stop], "big")
        elif kind == ORIGINAL:
            for inner, first, last in _attributes(message, start, stop):
                if inner == ADDRESSES:
                    for name, low, high in _attributes(message, first, last):
                        if name in SOURCES:
                            source = message[low:high]
    return zone, source


def _attributes(message: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield kind, start and end of the netlink attributes between two offsets."""
    while at + ATTRIBUTE.size <= end:
        length, kind = ATTRIBUTE.unpack_from(message, at)
        if length < ATTRIBUTE.size:
            return
        yield kind & 0x3FFF, at + ATTRIBUTE.size, min(at + length, end)
        at += length + 3 & ~3
