"""Sends and receives single packets and connections in network namespaces.

A socket stays in the namespace in which it was opened, so it can be used from any thread.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pyroute2 import IPRoute

from compute_agent.network.kernel import namespace
from tools.chaos.packets.wires import INSIDE

ETH_P_ALL = 3
BOOTP = struct.Struct("!BBBBIHH4s4s4s4s16s192s")
COOKIE = bytes.fromhex("63825363")
DISCOVER = 1
ROUTER_OPTION, ROUTES_OPTION = 3, 121
METADATA = "169.254.169.254"
LINE = 200


def opened(space: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
    """Open a socket in a namespace.  Raises OSError."""
    with namespace.inside(space):
        return socket.socket(family, kind, protocol)


def sniffing(space: str) -> socket.socket:
    """Open a socket that sends and receives complete Ethernet frames at a guest's interface."""
    raw = opened(space, socket.AF_PACKET, socket.SOCK_RAW, 0)
    raw.bind((INSIDE, ETH_P_ALL))
    return raw


def hears(raw: socket.socket, wanted: Callable[[bytes], bool], patience: float) -> bytes | None:
    """Return the first received frame that ``wanted`` accepts, None if there is none within ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while (left := deadline - time.monotonic()) > 0:
        if select.select([raw], [], [], left)[0]:
            frame, origin = raw.recvfrom(65536)
            if origin[2] != socket.PACKET_OUTGOING and wanted(frame):
                return frame
    return None


# ----- frames ---------------------------------------------------------------------------------------------------------


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def checksum(data: bytes) -> int:
    """Return the checksum of RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp_frame(source: tuple[str, str, int], target: tuple[str, str, int], payload: bytes) -> bytes:
    """Return an Ethernet frame with UDP over IPv4; each end is (MAC, address, port)."""
    udp = struct.pack("!HHHH", source[2], target[2], 8 + len(payload), 0) + payload
    ends = socket.inet_aton(source[1]) + socket.inet_aton(target[1])
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 1, 0, 64, socket.IPPROTO_UDP, 0) + ends
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return _mac(target[0]) + _mac(source[0]) + b"\x08\x00" + head + udp


# ----- DHCP -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Offer:
    """The offer of a DHCP server: an address, and routes as (network, gateway)."""

    address: str
    routes: tuple[tuple[str, str], ...]


def offer(space: str, mac: str, patience: float, tries: int = 3) -> Offer | None:
    """Request an address from DHCP as a guest does when it starts. Returns None if there is no offer."""
    body = BOOTP.pack(1, 1, 6, 0, 0x4E4F5641, 0, 0x8000, b"", b"", b"", b"", _mac(mac), b"")
    body += COOKIE + bytes([53, 1, DISCOVER, 55, 2, ROUTES_OPTION, ROUTER_OPTION, 255])
    nobody = str(ipaddress.IPv4Address(0))
    frame = udp_frame((mac, nobody, 68), ("ff:ff:ff:ff:ff:ff", "255.255.255.255", 67), body)
    with sniffing(space) as raw:
        for _ in range(tries):
            raw.send(frame)
            found = hears(raw, lambda heard: _is_offer(heard, mac), patience)
            if found is not None:
                return _offered(found)
    return None


def _is_offer(frame: bytes, mac: str) -> bool:
    """Return whether a frame is an offer of a DHCP server to this interface: offers to other interfaces are broadcast,
    too.
    """
    if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_UDP or frame[34:36] != struct.pack("!H", 67):
        return False
    return frame[42 + 28 : 42 + 34] == _mac(mac)


def _offered(frame: bytes) -> Offer:
    message = frame[42:]
    options: dict[int, bytes] = {}
    rest = message[BOOTP.size + len(COOKIE) :]
    while len(rest) > 1 and rest[0] != 255:
        if rest[0] == 0:
            rest = rest[1:]
            continue
        options[rest[0]] = options.get(rest[0], b"") + rest[2 : 2 + rest[1]]
        rest = rest[2 + rest[1] :]
    routes = _routes(options.get(ROUTES_OPTION, b""))
    if ROUTES_OPTION not in options and len(options.get(ROUTER_OPTION, b"")) >= 4:
        routes = (("0.0.0.0/0", socket.inet_ntoa(options[ROUTER_OPTION][:4])),)
    return Offer(socket.inet_ntoa(message[16:20]), routes)


def _routes(option: bytes) -> tuple[tuple[str, str], ...]:
    """Read classless routes (RFC 3442)."""
    found = []
    while option:
        length, octets = option[0], -(-option[0] // 8)
        network = socket.inet_ntoa(option[1 : 1 + octets].ljust(4, b"\0"))
        found.append((f"{network}/{length}", socket.inet_ntoa(option[1 + octets : 5 + octets])))
        option = option[5 + octets :]
    return tuple(found)


def configure(space: str, addresses: Iterable[str], routes: Iterable[tuple[str, str]]) -> None:
    """Configure exactly these addresses (with prefix lengths) and routes on a guest's interface."""
    with namespace.inside(space), IPRoute() as route:
        (index,) = route.link_lookup(ifname=INSIDE)
        route.flush_addr(family=socket.AF_INET, index=index)
        for each in map(ipaddress.ip_interface, addresses):
            route.addr("replace", index=index, address=str(each.ip), prefixlen=each.network.prefixlen)
        for network, gateway in routes:
            # With the gateway 0.0.0.0 the destination is on the link itself.
            way = {"gateway": gateway} if gateway != "0.0.0.0" else {"scope": "link"}  # noqa: S104
            route.route("replace", dst=network, oif=index, **way)


# ----- TCP ------------------------------------------------------------------------------------------------------------


@dataclass
class Listeners:
    """Accepts TCP connections in many namespaces, and answers each with a line: the word of the listener and the
    client's address.
    """

    _sockets: dict[socket.socket, str] = field(default_factory=dict)
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def add(self, space: str, address: str, port: int, word: str) -> None:
        """Listen on an address of a namespace; ``word`` is sent in the answers."""
        listening = opened(space, socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(32)
        listening.settimeout(0)
        self._sockets[listening] = word

    def start(self) -> None:
        self._thread = threading.Thread(target=self._answer, name="listeners", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join(5)
        for each in self._sockets:
            each.close()

    def _answer(self) -> None:
        poll = select.poll()
        by_number = {each.fileno(): each for each in self._sockets}
        for number in by_number:
            poll.register(number, select.POLLIN)
        while not self._ending.is_set():
            for number, _ in poll.poll(200):
                with contextlib.suppress(OSError):
                    connection, peer = by_number[number].accept()
                    with connection:
                        connection.settimeout(1)
                        connection.sendall(f"{self._sockets[by_number[number]]} {peer[0]}\n".encode())


def dial(space: str, source: str | None, target: tuple[str, int], patience: float) -> tuple[str, str] | None:
    """Connect; return the word of the listener that answered and the client's address as the listener saw it, None
    without an answer.
    """
    with opened(space, socket.AF_INET, socket.SOCK_STREAM) as client:
        client.settimeout(patience)
        try:
            if source:
                client.bind((source, 0))
            client.connect(target)
            words = client.makefile("rb").readline(LINE).decode().split()
        except OSError:
            return None
        return (words[0], words[1]) if len(words) == 2 else None


def asked(space: str, path: str, patience: float) -> bytes:
    """Return the body of the metadata service's answer, empty if there is no answer or an error."""
    with opened(space, socket.AF_INET, socket.SOCK_STREAM) as client:
        client.settimeout(patience)
        try:
            client.connect((METADATA, 80))
            client.sendall(f"GET {path} HTTP/1.0\r\nHost: {METADATA}\r\n\r\n".encode())
            answer = b""
            while piece := client.recv(65536):
                answer += piece
        except OSError:
            return b""
    head, _, body = answer.partition(b"\r\n\r\n")
    return body if b" 200 " in head.partition(b"\r\n")[0] else b""


# ----- ICMP -----------------------------------------------------------------------------------------------------------

_numbers = iter(range(1, 1 << 30))


def ping(space: str, source: str | None, target: str, patience: float) -> bool:
    """Return whether an echo request is answered."""
    number = next(_numbers)
    body = struct.pack("!HHI", os.getpid() & 0xFFFF, number & 0xFFFF, number)
    request = struct.pack("!BBH", 8, 0, checksum(b"\x08\0\0\0" + body)) + body
    deadline = time.monotonic() + patience
    with opened(space, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        if source:
            raw.bind((source, 0))
        try:
            raw.sendto(request, (target, 0))
            while (left := deadline - time.monotonic()) > 0:
                raw.settimeout(left)
                packet, peer = raw.recvfrom(2048)
                message = packet[(packet[0] & 0xF) * 4 :]
                if peer[0] == target and message[0] == 0 and message[4:12] == body:
                    return True
        except OSError:
            return False
    return False
