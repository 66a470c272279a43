"""Guests that tell lies to their network, in frames as they are: for that this machine's Perl is carried to them.

The guest image has no program that sends raw frames, and Perl is part of every Debian and Ubuntu.
"""

from __future__ import annotations

import io
import re
import shutil
import struct
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compute_agent.network.kernel.names import link_local
from tests.host.lab import ALL_NODES, NOBODY, arp_frame, icmp6, mac, neighbour, six_frame, udp_frame
from tests.support.guests import Guest

EVERYBODY = ("ff:ff:ff:ff:ff:ff", "255.255.255.255")
STRANGER = "fa:16:3e:66:66:66"
PERL = "/tmp/perl/ld-linux-x86-64.so.2 --library-path /tmp/perl /tmp/perl/perl -e"
ON_ETH0 = """
open(I, "/sys/class/net/eth0/ifindex"); $protocol = shift; socket(S, 17, 3, unpack("S", pack("n", $protocol))) or die;
bind(S, pack("SnlSCCx8", 17, $protocol, <I>, 0, 0, 0)) or die; $| = 1;
"""
"""A packet socket (packet(7)) on the guest's first interface."""
SENDS = ON_ETH0 + 'while (<STDIN>) { chomp; send(S, pack("H*", $_), 0) or die; }'
HEARS = ON_ETH0 + 'while (sysread(S, $frame, 65535)) { print unpack("H*", $frame), "\\n"; }'
EVERY_PROTOCOL = 3
"""ETH_P_ALL."""


def truths(port: Any) -> dict[str, bytes]:
    """What the guest of a port may say to all others of its network."""
    own, local, address = port.mac_address, link_local(port.mac_address), _four(port)
    return {
        "asks by ARP": arp_frame(own, (own, address), address[:-1] + "9"),
        "advertises itself": icmp6(own, local, 136, neighbour(136, local, own)),
    }


def lies(port: Any, other: Any) -> dict[str, bytes]:
    """What the guest of a port may not say: who ``other`` and the gateway are, and what only the network says."""
    own, address, local = port.mac_address, _four(port), link_local(port.mac_address)
    theirs, their_local = _four(other), link_local(other.mac_address)
    gateway, six = address.rpartition(".")[0] + ".1", "fd00:50::1"
    router = struct.pack("!BBHII", 64, 0, 1800, 0, 0) + bytes([1, 1]) + mac(own)
    offer = struct.pack("!BBBBIHH4s4s4s4s16s192s", 2, 1, 6, 0, 7, 0, 0x8000, b"", b"\n\x32\0\x63", b"", b"",
                        mac(other.mac_address), b"") + bytes.fromhex("63825363350102ff")  # fmt: skip
    advertise = struct.pack("!HHHH", 547, 546, 12, 1) + b"\x02abc"
    return {
        "another address by IP": udp_frame((own, theirs, 4000), (*EVERYBODY, 4001), b"lie"),
        "another MAC": udp_frame((STRANGER, address, 4000), (*EVERYBODY, 4001), b"lie"),
        "the gateway by ARP": arp_frame(own, (own, gateway), theirs),
        "the other one by ARP": arp_frame(own, (own, theirs), gateway),
        "another MAC by ARP": arp_frame(own, (STRANGER, address), theirs),
        "the gateway by NDP": icmp6(own, local, 136, neighbour(136, six, own)),
        "the other one by NDP": icmp6(own, local, 136, neighbour(136, their_local, own)),
        "the other one asks by NDP": icmp6(own, their_local, 135, neighbour(135, six, own)),
        "a router": icmp6(own, local, 134, router),
        "a router that is the other one": icmp6(own, their_local, 134, router),
        "a better way": icmp6(own, local, 137, bytes(36)),
        "an address by DHCP": udp_frame((own, address, 67), (*EVERYBODY, 68), offer),
        "an address by DHCP, of nobody": udp_frame((own, NOBODY, 67), (*EVERYBODY, 68), offer),
        "an address by DHCPv6": six_frame(own, local, ALL_NODES, 17, advertise),
    }


def _four(port: Any) -> str:
    return next(str(each["ip_address"]) for each in port.fixed_ips if ":" not in each["ip_address"])


def tells(guest: Guest, frames: Sequence[bytes]) -> None:
    """Let a guest send frames, one after the other."""
    _carry(guest)
    guest.run(f"{PERL} '{SENDS}' 0", stdin="".join(f"{frame.hex()}\n" for frame in frames).encode())


@contextmanager
def hears(guest: Guest) -> Iterator[Callable[[Mapping[str, bytes]], set[str]]]:
    """Let a guest listen for as long as the block lasts; return what tells which of some frames it has heard."""
    _carry(guest)
    guest.run(f"setsid {PERL} '{HEARS}' {EVERY_PROTOCOL} </dev/null >/tmp/heard 2>&1 & echo $! >/tmp/hears.pid")

    def heard(frames: Mapping[str, bytes]) -> set[str]:
        lines = guest.run("cat /tmp/heard").split()
        return {name for name, frame in frames.items() if any(line.startswith(frame.hex()) for line in lines)}

    yield heard
    guest.run("kill $(cat /tmp/hears.pid)", check=False)


def _carry(guest: Guest) -> None:
    """Put Perl into a guest, with the libraries and the loader it has here."""
    program = shutil.which("perl")
    assert program is not None
    libraries = re.findall(r"(/\S+)", subprocess.check_output(["ldd", program], text=True))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1, dereference=True) as archive:
        for path in map(Path, (program, *libraries)):
            archive.add(path, path.name)
    guest.run("mkdir -p /tmp/perl && tar xz -C /tmp/perl", stdin=packed.getvalue())
