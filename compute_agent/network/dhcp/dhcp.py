"""A dnsmasq for each network, which answers only known interfaces, with their fixed addresses."""

import contextlib
import hashlib
import ipaddress
import logging
import os
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compute_agent.network.dhcp import dhcp_config
from compute_agent.network.dhcp.dhcp_config import DhcpUser, Lease, Served
from compute_agent.network.kernel import namespace
from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.processes.processes import collect, is_ours, kill, read_pid
from compute_agent.virt.processes.programs import SYSTEM_PATH
from compute_agent.virt.processes.rights import OF_DNSMASQ

log = logging.getLogger(__name__)

RUN = Path("/run")
START_SECONDS = 10.0
FAILED = "The host could not start DHCP."
MOST_SAID = 1 << 16
"""Limit of the file with lease events, in bytes."""
BOOTP_RELEASE = 7
RESOLV_CONFS = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
"""Files with the machine's name servers; the second is used if the first names only a server on the machine."""


def upstream_servers(resolv_conf: str) -> list[str]:
    """Return the name servers of a ``resolv.conf`` that are reachable from another network namespace."""
    servers = []
    for line in resolv_conf.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver":
            with contextlib.suppress(ValueError):
                address = ipaddress.ip_address(words[1])
                if not address.is_loopback and address.version == 4:
                    servers.append(str(address))
    return servers


def machine_servers() -> tuple[str, ...]:
    """Return the machine's name servers that are reachable from another network namespace."""
    for path in RESOLV_CONFS:
        with contextlib.suppress(OSError):
            if servers := upstream_servers(path.read_text()):
                return tuple(servers)
    return ()


@dataclass(frozen=True, slots=True)
class LeaseEvent:
    """A lease event: a guest has received the address, or (``held`` False) has released it."""

    address: str
    held: bool


class DhcpServer:
    """dnsmasq for one network.

    dnsmasq reads its configuration and its leases in ``folder`` as root, and then drops privileges. Files that it reads
    again later, as an unprivileged user, are in ``_shown``.
    """

    def __init__(self, folder: Path, user: DhcpUser | None = None) -> None:
        """The folder is created when the server is first started."""
        self.folder = folder
        self._user = user or DhcpUser()
        self._starting: subprocess.Popen[bytes] | None = None
        """The dnsmasq process until it has become a daemon or has reported an error; None otherwise."""

    @property
    def _shown(self) -> Path:
        """The folder of the files that dnsmasq reads as ``user``, which has no access to the state folder."""
        return RUN / f"novella-dhcp-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}"

    @property
    def _conf(self) -> Path:
        return self.folder / "dnsmasq.conf"

    def ensure(self, served: Served) -> None:
        """Run the server with exactly these leases and names. Raises RetryableHostError.

        The server may still be starting afterwards: ``started`` waits for it.
        """
        try:
            self._ensure(served)
        except (OSError, ValueError) as error:
            raise RetryableHostError(FAILED, detail=str(error)) from error

    def started(self) -> None:
        """Wait until a starting server answers. Raises RetryableHostError if the server could not start."""
        process, self._starting = self._starting, None
        if process is None:
            return
        try:
            _, output = process.communicate(timeout=START_SECONDS)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.communicate()
            raise RetryableHostError(FAILED, detail=str(error)) from error
        if process.returncode != 0:
            raise RetryableHostError(FAILED, detail=output.decode(errors="replace").strip())

    def running(self) -> int | None:
        """Return the server's process id, None if it does not run."""
        try:
            self.started()
        except RetryableHostError as error:
            log.warning("%s %s", error, error.detail)
        pid = read_pid(self.folder / "dnsmasq.pid")
        if pid is None or is_ours(pid, [self.folder]):
            return pid
        collect(pid)
        return None

    def end(self) -> bool:
        """Stop the server and keep its files; return whether it ran."""
        pid = self.running()
        return pid is not None and kill(pid, signal.SIGTERM)

    def stop(self) -> bool:
        """Stop the server and remove its files; return whether it ran."""
        stopped = self.end()
        for folder in (self.folder, self._shown):
            shutil.rmtree(folder, ignore_errors=True)
        return stopped

    def events(self, since: int) -> tuple[list[LeaseEvent], int]:
        """Return the lease events after offset ``since`` of dnsmasq's event file, and the new offset.

        The server reports all leases again when it starts, so lost events are repeated.
        """
        try:
            with (self._shown / dhcp_config.SAID).open("rb+") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(since if since <= size else 0)
                whole, _, rest = file.read(MOST_SAID).rpartition(b"\n")
                end = file.tell() - len(rest)
                if end >= MOST_SAID // 2:
                    file.truncate(0)
                    end = 0
        except OSError:
            return [], 0
        words = [line.split() for line in whole.decode(errors="replace").splitlines()]
        return [LeaseEvent(each[1], held=each[0] != "del") for each in words if len(each) == 2], end

    def release(self, server: str, lease: Lease, within: str | None = None) -> None:
        """Release an interface's IPv4 address (RFC 2131 section 4.4.6), so that it can be allocated again immediately.

        ``server`` is the server's address, ``within`` its network namespace (None: the agent's).
        """
        address = next((each for each in lease.addresses if ":" not in each), None)
        if self.running() is None or address is None:
            return
        packet = struct.pack("!BBBBIHH4s4s4s4s16s192x", 1, 1, 6, 0, int.from_bytes(os.urandom(4), "big"), 0, 0,
                             ipaddress.IPv4Address(address).packed, b"", b"", b"",
                             bytes.fromhex(lease.mac.replace(":", "")))  # fmt: skip
        options = struct.pack(
            "!IBBBBB4sB", 0x63825363, 53, 1, BOOTP_RELEASE, 54, 4, ipaddress.IPv4Address(server).packed, 255
        )
        with (
            contextlib.suppress(OSError),
            namespace.inside(within) if within else contextlib.nullcontext(),
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            sender.sendto(packet + options, (server, 67))

    def _ensure(self, served: Served) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        config = dhcp_config.config(served, self.folder, self._shown, self._user)
        texts = {
            "hosts": dhcp_config.hosts(served),
            "options": dhcp_config.options(served),
            "names": dhcp_config.names(served),
        }
        self._show(self._shown, 0o750)
        self._share_events()
        changed = [name for name, text in texts.items() if self._write_shown(name, text)]
        pid = self.running()
        if pid is not None and _write(self._conf, config):
            kill(pid, signal.SIGTERM)
            pid = None
        if pid is not None:
            if changed:
                os.kill(pid, signal.SIGHUP)
            return
        _write(self._conf, config)
        self._start(served)

    def _share_events(self) -> None:
        """Allow dnsmasq's user to run the lease script, and to write the event file."""
        program, text = self._shown / dhcp_config.SCRIPT, dhcp_config.script(self._shown)
        if not program.exists() or program.read_text() != text:
            self._write_shown(dhcp_config.SCRIPT, text)
        self._show(program, 0o750)
        events = self._shown / dhcp_config.SAID
        events.touch()
        self._show(events, 0o660)

    def _write_shown(self, name: str, text: str) -> bool:
        """Write a file that dnsmasq reads as its user, if the content differs. Return whether it was written."""
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
        """Give the group of dnsmasq's user access to a file or folder that root owns. The folder ``_shown`` is created
        if needed.
        """
        if path == self._shown:
            path.mkdir(mode=0o700, exist_ok=True)
        os.chown(path, 0, self._user.gid)
        path.chmod(mode)

    def _start(self, served: Served) -> None:
        file = self.folder / "leases"
        desired = {(lease.mac, address) for lease in served.leases for address in lease.addresses}
        if file.exists():
            known = {address for _, address in desired}
            lines = [
                line for line in file.read_text().splitlines(keepends=True) if _holds(line.split(), desired, known)
            ]
            file.write_text("".join(lines))
        program = shutil.which("dnsmasq", path=SYSTEM_PATH)
        if program is None:
            raise OSError("dnsmasq is not installed")
        command = [*OF_DNSMASQ.command, program, f"--conf-file={self._conf}"]
        with namespace.inside(served.namespace) if served.namespace else contextlib.nullcontext():
            self._starting = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )


def _holds(words: Sequence[str], desired: set[tuple[str, str]], known: set[str]) -> bool:
    """Return whether to keep a line of the lease file: IPv4 leases contain a MAC, IPv6 leases the guest's client id."""
    if len(words) < 3:
        return words[:1] == ["duid"]  # the server's own id
    return tuple(words[1:3]) in desired or (":" in words[2] and words[2] in known)


def _write(path: Path, text: str) -> bool:
    """Write the file if its content differs. Return whether it was written."""
    if path.exists() and path.read_text() == text:
        return False
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)
    return True
