"""The laboratory: network namespaces that stand for a machine, the world outside it and interfaces of guests."""

from __future__ import annotations

import ipaddress
import os
import select
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pyroute2 import IPRoute, netns

from compute_agent.contract.build import InstanceSpec, PortRef
from compute_agent.network import cleanup as network_cleanup
from compute_agent.network.kernel import names, namespace
from compute_agent.settings import AgentSettings
from compute_agent.virt.libvirt import cleanup as libvirt_cleanup

T = TypeVar("T")

PATIENCE = 240.0
ETH_P_ALL = 3
NOBODY = "0.0.0.0"  # noqa: S104
ALL_NODES = ("33:33:00:00:00:01", "ff02::1")


def until(question: Callable[[], T], what: str, patience: float = PATIENCE) -> T:
    """Ask until the answer is true; fail after ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while not (answer := question()):
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)
    return answer


class Space:
    """A network namespace of the tests."""

    _seen: ClassVar[set[tuple[str, int]]] = set()
    """The namespaces whose loopback interface is up."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = namespace.FOLDER / name
        namespace.ensure(name)
        if (result := (name, self.path.stat().st_ino)) not in self._seen:
            self.run("ip", "link", "set", "lo", "up")
            self._seen.add(result)

    def run(self, *command: str, check: bool = True) -> str:
        """Run a program inside."""
        done = subprocess.run(
            ["nsenter", f"--net={self.path}", *command], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert not check or done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def ip(self, *commands: str) -> None:
        """Run commands of iproute2 inside, in one program."""
        words = ["nsenter", f"--net={self.path}", "ip", "-batch", "-"]
        done = subprocess.run(words, input="\n".join(commands), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{commands}: {done.stderr}"

    def do(self, work: Callable[[], T]) -> T:
        """Call ``work`` with this thread inside; sockets it opens stay inside."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            return namespace.open_in(descriptor, work)
        finally:
            os.close(descriptor)

    def connects(
        self,
        address: str,
        port: int,
        patience: float = PATIENCE,
        source: str | None = None,
        family: int = socket.AF_INET,
    ) -> bool:
        """Say whether a TCP connection from here is accepted."""

        def dial() -> bool:
            with socket.socket(family) as client:
                client.settimeout(patience)
                if source:
                    client.bind((source, 0))
                try:
                    client.connect((address, port))
                except OSError:
                    return False
                return True

        return self.do(dial)

    def listens(self, address: str, port: int) -> socket.socket:
        """Open a TCP server socket here."""
        return self.do(lambda: socket.create_server((address, port)))

    def send(self, interface: str, frame: bytes) -> None:
        """Send one Ethernet frame as it is."""

        def send() -> None:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
                raw.bind((interface, 0))
                raw.send(frame)

        self.do(send)

    def remove(self) -> None:
        if self.path.exists():
            netns.remove(self.name)


@dataclass
class Lab:
    """One machine with the settings of the agent on it."""

    settings: AgentSettings
    machine: Space
    host: Space | None = None
    """The agent's own namespace, once it is there."""

    def inside(self) -> Space:
        assert self.settings.netns is not None
        return Space(self.settings.netns)

    def served(self, network_id: str) -> Space:
        """Where the host answers guests of a network."""
        return Space(names.namespace_name(self.settings.netns, names.SERVICE, network_id))

    def ssh(self, key: Path, guest: InstanceSpec, command: str, *, check: bool = True) -> str:
        """Run a command in a guest, over its first interface and from where its network is served.

        The connection stays for the next commands: to agree on keys costs a guest under emulation more than they do.
        A test that starts or destroys the guest calls ``hang_up``.
        """
        port, space = guest.ports[0], self.served(guest.ports[0].network.id)
        way = self.settings.state_dir.parent / f"ssh-{port.id[:8]}"
        options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=60"]
        options += ["-o", f"ControlPath={way}", "-o", "ControlMaster=auto", "-o", f"ControlPersist={PATIENCE:.0f}"]
        words = ["ssh", "-i", str(key), "-q", "-o", "BatchMode=yes", *options, f"root@{port.fixed_ips[0].address}"]
        return space.run(*words, command, check=check)

    def hang_up(self) -> None:
        """End the connections to guests."""
        for way in self.settings.state_dir.parent.glob("ssh-*"):
            self.machine.run("ssh", "-o", f"ControlPath={way}", "-O", "exit", "guest", check=False)
            way.unlink(missing_ok=True)

    def clean(self) -> list[str]:
        """Remove all that the agent made, as ``--clean`` does, in the machine's namespace."""
        done = libvirt_cleanup.remove_everything(self.settings)
        return done + self.machine.do(lambda: network_cleanup.remove_everything(self.settings))


def make_lab(folder: Path, name: str) -> Lab:
    settings = AgentSettings(host="lab", state_dir=folder, netns=f"{name}-host", virt_type="auto", guest_user="nobody",
                             underlay_address="127.0.0.1")  # fmt: skip
    machine = Space(f"{name}-machine")
    # A new namespace takes over what this machine has now.
    machine.do(lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("0"))
    return Lab(settings, machine)


def processes_naming(text: str | Path) -> list[str]:
    """List the command lines that name ``text``, zombies and this process excepted."""
    values = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if str(text).encode() in command and int(path.parent.name) != os.getpid():
            values.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in values if "multiprocessing" not in line]


class Interface:
    """A guest's interface without the guest: a veth whose host end has the tap's name, its other end in a namespace."""

    def __init__(self, host: Space, port: PortRef, name: str) -> None:
        self.port = port
        self.space = Space(name)
        self.connect(host)
        self.raw = self.space.do(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)))
        self.raw.bind(("eth0", 0))

    def connect(self, host: Space) -> None:
        """Connect the guest's namespace to a host."""
        port = self.port
        host.ip(
            f"link add {port.tap} type veth peer name eth0 netns {self.space.path}",
            f"link set {port.tap} master {port.network.bridge} up",
        )
        # IPv6 is left on: the filters must stop it, not the guest.
        self.space.run("ip", "link", "set", "eth0", "address", port.mac_address, "up")
        # The bridge enables its port a moment after the carrier is there, and drops frames until then.
        until(lambda: "state forwarding" in host.run("bridge", "link", "show", "dev", port.tap), f"{port.tap} forwards")

    @property
    def address(self) -> str:
        return self.port.fixed_ips[0].address

    def configure(self) -> None:
        """Take the fixed address, as DHCP would give it."""
        gateway = self.port.network.gateway
        ways = [f"route add default via {gateway}"] if gateway else []
        self.space.ip(f"addr add {self.address}/24 dev eth0", *ways)

    def send(self, frame: bytes) -> None:
        self.raw.send(frame)

    def hears(self, fits: Callable[[bytes], bool], patience: float = PATIENCE) -> bytes | None:
        """Return the first frame that arrives and ``fits``."""
        deadline = time.monotonic() + patience
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self.raw], [], [], left)[0]:
                frame, origin = self.raw.recvfrom(65536)
                if origin[2] != socket.PACKET_OUTGOING and fits(frame):
                    return frame
        return None

    def drain(self) -> None:
        """Forget what has arrived."""
        while select.select([self.raw], [], [], 0)[0]:
            self.raw.recv(65536)

    def remove(self) -> None:
        self.raw.close()
        self.space.remove()


def mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def checksum(data: bytes) -> int:
    """The checksum of the Internet (RFC 1071)."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp_frame(source: tuple[str, str, int], target: tuple[str, str, int], payload: bytes) -> bytes:
    """An Ethernet frame with UDP over IPv4; each end is (MAC, address, port)."""
    udp = struct.pack("!HHHH", source[2], target[2], 8 + len(payload), 0) + payload
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0,
                       socket.inet_aton(source[1]), socket.inet_aton(target[1]))  # fmt: skip
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return mac(target[0]) + mac(source[0]) + b"\x08\x00" + head + udp


def arp_frame(source_mac: str, sender: tuple[str, str], target: str) -> bytes:
    """A broadcast ARP request; ``sender`` is the (MAC, address) that it claims."""
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mac(sender[0]) + socket.inet_aton(sender[1])
    return b"\xff" * 6 + mac(source_mac) + b"\x08\x06" + body + b"\0" * 6 + socket.inet_aton(target)


def six_frame(
    source_mac: str, source: str, target: tuple[str, str], protocol: int, payload: bytes, hops: int = 255
) -> bytes:
    """An Ethernet frame with IPv6."""
    head = struct.pack("!IHBB", 0x60000000, len(payload), protocol, hops)
    head += ipaddress.IPv6Address(source).packed + ipaddress.IPv6Address(target[1]).packed
    return mac(target[0]) + mac(source_mac) + b"\x86\xdd" + head + payload


def icmp6(source_mac: str, source: str, kind: int, body: bytes, target: tuple[str, str] = ALL_NODES) -> bytes:
    """An ICMPv6 message of a kind, to all nodes when nobody else is named."""
    plain = struct.pack("!BBH", kind, 0, 0) + body
    pseudo = ipaddress.IPv6Address(source).packed + ipaddress.IPv6Address(target[1]).packed
    pseudo += struct.pack("!II", len(plain), 58) + plain
    return six_frame(source_mac, source, target, 58, plain[:2] + struct.pack("!H", checksum(pseudo)) + plain[4:])


def neighbour(kind: int, about: str, option: str) -> bytes:
    """The body of a neighbour solicitation (135) or advertisement (136) that gives an address a MAC."""
    return b"\0" * 4 + ipaddress.IPv6Address(about).packed + bytes([2 if kind == 136 else 1, 1]) + mac(option)


def dns_question(name: str) -> bytes:
    """A question for the IPv4 addresses of a name (RFC 1035)."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", 1, 1)


def dns_addresses(answer: bytes) -> set[str]:
    """The IPv4 addresses in an answer whose records name the question by a pointer."""
    count = struct.unpack("!H", answer[6:8])[0]
    records = answer[answer.index(b"\0", 12) + 5 :]
    return {socket.inet_ntoa(records[at * 16 + 12 : at * 16 + 16]) for at in range(count)}


def dhcp_option(frame: bytes, number: int) -> bytes:
    """An option of the DHCP message in this frame; nothing when it is not there."""
    rest = frame[42 + 240 :]
    while rest and rest[0] != 255:
        if rest[0] == 0:
            rest = rest[1:]
            continue
        if rest[0] == number:
            return rest[2 : 2 + rest[1]]
        rest = rest[2 + rest[1] :]
    return b""


def dhcp_discover(interface_mac: str, *wanted: int) -> bytes:
    """The frame an interface sends when it asks who it is, and for these options."""
    body = struct.pack(
        "!BBBBIHH4s4s4s4s16s192s", 1, 1, 6, 0, 0x12345678, 0, 0x8000, b"", b"", b"", b"", mac(interface_mac), b""
    )
    requested = bytes([55, len(wanted), *wanted]) if wanted else b""
    body += bytes.fromhex("63825363") + bytes([53, 1, 1]) + requested + b"\xff"
    return udp_frame((interface_mac, NOBODY, 68), ("ff:ff:ff:ff:ff:ff", "255.255.255.255", 67), body)


def dhcp_offer(frame: bytes) -> str | None:
    """The address a DHCP server offers in this frame."""
    if frame[12:14] != b"\x08\x00" or frame[23] != 17 or struct.unpack("!H", frame[34:36])[0] != 67:
        return None
    return socket.inet_ntoa(frame[42 + 16 : 42 + 20])


def remove_lab(lab: Lab, folder: Path) -> None:
    lab.hang_up()
    lab.clean()
    lab.machine.remove()
    shutil.rmtree(folder, ignore_errors=True)


def links(space: Space) -> set[str]:
    """The interfaces of a namespace, loopback excepted."""

    def look() -> Any:
        with IPRoute() as route:
            return {link.get_attr("IFLA_IFNAME") for link in route.get_links()} - {"lo"}

    return set(space.do(look))
