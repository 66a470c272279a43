"""One dnsmasq for each bridge: it answers the interfaces it knows with their fixed addresses, and no other."""

import contextlib
import hashlib
import ipaddress
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from compute_agent.contract.build import NetworkRef, PortRef
from compute_agent.network.dhcp_user import DhcpUser
from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.processes import collect, is_ours, kill, read_pid
from compute_agent.virt.programs import SYSTEM_PATH

RUN = Path("/run")
LABEL = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$")
DOMAIN = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$")
MAC = re.compile(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")
RESERVED = frozenset(
    {
        "localhost", "localdomain", "broadcasthost", "gateway", "router", "dhcp", "dns", "ns", "ntp", "time",
        "metadata", "instance-data", "wpad", "isatap", "autodiscover",
    }
)  # fmt: skip
"""Names that programs ask for by themselves, or that mean the network itself: no guest is answered for."""
LEASE = "86400"
"""Seconds; a fixed address may be kept for long."""
START_SECONDS = 10.0
BOOTP_RELEASE = 7


@dataclass(frozen=True)
class Lease:
    """One interface's fixed address."""

    mac: str
    address: str
    hostname: str
    domain: str = ""
    """On a network of several projects: where its name is, and what completes the short names that it asks for."""


def server_address(network: NetworkRef) -> str | None:
    """Return the address of the host on the network: where DHCP answers, and the gateway unless that is elsewhere."""
    return network.dhcp_address or network.gateway


def leases_of(named_ports: Sequence[tuple[str, PortRef]]) -> list[Lease]:
    """Return the fixed leases of one network, in a stable order; raises ValueError for bad addresses."""
    found = {}
    for hostname, port in named_ports:
        mac = port.mac_address.lower()
        if not MAC.fullmatch(mac):
            raise ValueError(f"not a hardware address: {port.mac_address!r}")
        for fixed in port.fixed_ips:
            if fixed.enable_dhcp and ":" not in fixed.address and mac not in found:
                address = str(ipaddress.IPv4Address(fixed.address))
                served = LABEL.fullmatch(hostname) and hostname.lower() not in RESERVED
                if port.dns_domain and not DOMAIN.fullmatch(port.dns_domain):
                    raise ValueError(f"not a domain: {port.dns_domain!r}")
                found[mac] = Lease(mac, address, hostname if served else "", port.dns_domain)
    return sorted(found.values(), key=lambda lease: lease.mac)


def upstream_servers(resolv_conf: str) -> list[str]:
    """Return the name servers of a ``resolv.conf`` that can be reached from another network namespace."""
    servers = []
    for line in resolv_conf.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver":
            with contextlib.suppress(ValueError):
                address = ipaddress.ip_address(words[1])
                if not address.is_loopback and address.version == 4:
                    servers.append(str(address))
    return servers


class DhcpServer:
    """dnsmasq on one bridge, with its files in ``folder``; what it reads again and again lies where its account may.

    It opens its settings and its leases as root, and then is root no more.
    """

    def __init__(self, folder: Path, user: DhcpUser | None = None) -> None:
        """Take the folder; it is made when the server is first wanted."""
        self.folder = folder
        self._user = user or DhcpUser()

    @property
    def _shown(self) -> Path:
        """The folder of the files that dnsmasq reads as ``user``: nobody else gets into the state folder."""
        return RUN / f"novella-dhcp-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}"

    @property
    def _conf(self) -> Path:
        return self.folder / "dnsmasq.conf"

    def ensure(self, network: NetworkRef, leases: Sequence[Lease], upstream: Sequence[str]) -> None:
        """Let the server run with exactly these leases; raises RetryableHostError."""
        try:
            self._ensure(self._config(network, upstream), network, leases)
        except (OSError, ValueError) as error:
            raise RetryableHostError("The host could not start DHCP.", detail=str(error)) from error

    def running(self) -> int | None:
        """Return the server's process id, None when it does not run."""
        pid = read_pid(self.folder / "dnsmasq.pid")
        if pid is None or is_ours(pid, [self.folder]):
            return pid
        collect(pid)
        return None

    def end(self) -> bool:
        """End the server and keep its files; say whether it ran."""
        pid = self.running()
        return pid is not None and kill(pid, signal.SIGTERM)

    def stop(self) -> bool:
        """End the server and remove its files; say whether it ran."""
        stopped = self.end()
        for folder in (self.folder, self._shown):
            shutil.rmtree(folder, ignore_errors=True)
        return stopped

    def release(self, server: str, lease: Lease) -> None:
        """Give the interface's address back (RFC 2131 section 4.4.6), so that another interface may get it at once."""
        if self.running() is None:
            return
        packet = struct.pack("!BBBBIHH4s4s4s4s16s192x", 1, 1, 6, 0, int.from_bytes(os.urandom(4), "big"), 0, 0,
                             ipaddress.IPv4Address(lease.address).packed, b"", b"", b"",
                             bytes.fromhex(lease.mac.replace(":", "")))  # fmt: skip
        options = struct.pack(
            "!IBBBBB4sB", 0x63825363, 53, 1, BOOTP_RELEASE, 54, 4, ipaddress.IPv4Address(server).packed, 255
        )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender, contextlib.suppress(OSError):
            sender.sendto(packet + options, (server, 67))

    def _ensure(self, config: str, network: NetworkRef, leases: Sequence[Lease]) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        hosts = "".join(map(_host_line, leases))
        options = "".join(line for one in leases for line in _option_lines(one))
        names = "".join(_name_line(one, network.dns_domain) for one in leases if one.hostname)
        self._show(self._shown, 0o750)
        changed = self._write_shown("hosts", hosts) | self._write_shown("names", names)
        changed |= self._write_shown("options", options)
        pid = self.running()
        if pid is not None and _write(self._conf, config):
            kill(pid, signal.SIGTERM)
            pid = None
        if pid is not None:
            if changed:
                os.kill(pid, signal.SIGHUP)
            return
        _write(self._conf, config)
        self._start(leases)

    def _write_shown(self, name: str, text: str) -> bool:
        """Write a file that dnsmasq reads as its user when its content changes; say whether it did."""
        path = self._shown / name
        if path.exists() and path.read_text() == text:
            self._show(path, 0o640)
            return False
        part = path.with_name(name + ".part")
        part.write_text(text)
        self._show(part, 0o640)
        part.replace(path)
        return True

    def _show(self, path: Path, mode: int) -> None:
        """Let the user's group at a file or folder that stays root's; a folder is made."""
        if path == self._shown:
            path.mkdir(mode=0o700, exist_ok=True)
        os.chown(path, 0, self._user.gid)
        path.chmod(mode)

    def _start(self, leases: Sequence[Lease]) -> None:
        file = self.folder / "leases"
        wanted = {(one.mac, one.address) for one in leases}
        if file.exists():
            lines = [line for line in file.read_text().splitlines(keepends=True) if tuple(line.split()[1:3]) in wanted]
            file.write_text("".join(lines))
        program = shutil.which("dnsmasq", path=SYSTEM_PATH)
        if program is None:
            raise OSError("dnsmasq is not installed")
        command = [program, f"--conf-file={self._conf}"]
        limits = shutil.which("setpriv", path=SYSTEM_PATH)
        if limits is not None:
            command = [limits, "--no-new-privs", "--", *command]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=START_SECONDS)  # noqa: S603
        except subprocess.CalledProcessError as error:
            raise OSError(error.stderr.decode(errors="replace").strip()) from error
        except subprocess.TimeoutExpired as error:
            raise OSError(str(error)) from error

    def _config(self, network: NetworkRef, upstream: Sequence[str]) -> str:
        cidr = ipaddress.IPv4Network(network.cidr)
        address = server_address(network)
        if address is None or not DOMAIN.fullmatch(network.dns_domain):
            raise ValueError(f"a network that DHCP cannot serve: {network.bridge}")
        names = [str(ipaddress.ip_address(server)) for server in network.dns_nameservers] or [address]
        router = f"option:router,{ipaddress.IPv4Address(network.gateway)}" if network.gateway else "option:router"
        lines = [
            f"interface={network.bridge}", "bind-interfaces", "except-interface=lo", f"listen-address={address}",
            f"pid-file={self.folder}/dnsmasq.pid", f"user={self._user.name}",
            f"group={self._user.group}", "log-facility=/dev/null", "quiet-dhcp",
            f"dhcp-range={cidr.network_address},static,{cidr.netmask},{LEASE}", "dhcp-authoritative", "no-ping",
            f"dhcp-lease-max={min(cidr.num_addresses, 65536)}", "dhcp-ignore-names",
            f"dhcp-hostsfile={self._shown}/hosts", f"dhcp-optsfile={self._shown}/options",
            f"dhcp-leasefile={self.folder}/leases",
            f"dhcp-option={router}", f"dhcp-option-force=26,{network.mtu}",
            f"dhcp-option=option:dns-server,{','.join(names)}",
            "no-hosts", "no-resolv", "domain-needed", f"addn-hosts={self._shown}/names",
            f"domain={network.dns_domain}", f"local=/{network.dns_domain}/", "bogus-priv", "stop-dns-rebind",
            *(f"server={server}" for server in upstream),
        ]  # fmt: skip
        return "".join(line + "\n" for line in lines)


def _host_line(lease: Lease) -> str:
    """Give a lease.  One with a domain of its own is told its name by options: dnsmasq would answer it to everybody."""
    words = (
        (lease.mac, f"set:{_tag(lease)}", lease.address) if lease.domain else (lease.mac, lease.address, lease.hostname)
    )
    return ",".join(filter(None, words)) + "\n"


def _option_lines(lease: Lease) -> Iterator[str]:
    if lease.domain:
        yield f"tag:{_tag(lease)},option:domain-name,{lease.domain}\n"
        if lease.hostname:  # dnsmasq knows no word for the host name's option
            yield f"tag:{_tag(lease)},12,{lease.hostname}\n"


def _name_line(lease: Lease, domain: str) -> str:
    if lease.domain:
        return f"{lease.address} {lease.hostname}.{lease.domain}\n"
    return f"{lease.address} {lease.hostname}.{domain} {lease.hostname}\n"


def _tag(lease: Lease) -> str:
    return "m" + lease.mac.replace(":", "")


def _write(path: Path, text: str) -> bool:
    """Write the file when its content changes; say whether it did."""
    if path.exists() and path.read_text() == text:
        return False
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)
    return True
