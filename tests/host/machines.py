"""Two machines that are joined by one cable, for volumes on the wire: certificates, exports, clients, and who listens.

Each host's daemons and guests are in a namespace of its own beside its machine's, as under ``bin/up --hosts``.
"""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.utils import timezone

from compute_agent.contract.build import VolumeConnection
from compute_agent.contract.certificates import Certificate, tls_hostname
from compute_agent.network.kernel.uplink import Uplink
from compute_agent.virt.machine.certificates import HostCertificates
from provisioning.hosts.authority import Authority, new_authority
from tests.host.lab import ETH_P_ALL, PATIENCE, Space, until

PORT = 10_812
ATTACHMENT = str(uuid.uuid4())
EXPORT = f"{uuid.uuid4()}.{ATTACHMENT}.1"
MARK = b"\xabplain text of a volume\xab"
MONTH = timedelta(days=30)
_authority = new_authority(timezone.now())
CA = _authority[0]


def sign(certificates: HostCertificates, host_id: str, life: timedelta = MONTH) -> None:
    """Do what the portal does."""
    authority, now, requested = Authority(CA, _authority[1]), timezone.now(), certificates.request()
    server = authority.sign(requested.server, host_id, server_name=tls_hostname(host_id), now=now, life=life)
    client = authority.sign(requested.client, host_id, now=now, life=life)
    certificates.store(Certificate(host_id=host_id, server=server, client=client, ca=CA))


@dataclass
class Machine:
    """One host: its machine's namespace, its own, and its state folder."""

    number: int
    folder: Path
    name: str
    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def __post_init__(self) -> None:
        self.machine, self.host = Space(self.name), Space(f"{self.name}-g")
        self.certificates = HostCertificates(self.folder)

    @property
    def address(self) -> str:
        return f"192.0.2.{self.number}"

    def join(self) -> None:
        """Make the way between the two namespaces, and the certificates."""
        machine = os.open(self.machine.path, os.O_RDONLY)
        uplink = Uplink(self.host.name, (10_809, 10_820))
        self.host.do(lambda: uplink.ensure(machine, self.folder / "forward", self.address))
        os.close(machine)
        self.sign()

    def connection(self) -> VolumeConnection:
        """What a guest is told of the volume that this host exports."""
        return VolumeConnection(
            export=EXPORT, address=self.address, port=PORT, tls=True, tls_hostname=self.certificates.tls_hostname
        )

    def sign(self, life: timedelta = MONTH) -> None:
        sign(self.certificates, self.id, life)

    def qemu_io(
        self, at: Machine, *commands: str, tls: bool = True, name: str = "", export: str = EXPORT
    ) -> subprocess.CompletedProcess[str]:
        """Open the volume of another host as QEMU does, and do this with it."""
        words = [f"driver=nbd,host={at.address},port={PORT},export={export}"]
        if tls:
            words[0] += f",tls-creds=t,tls-hostname={name or at.certificates.tls_hostname}"
            words += ["--object", f"tls-creds-x509,id=t,endpoint=client,dir={self.certificates.folder}"]
        requested = [word for command in commands for word in ("-c", command)]
        inside = ["nsenter", f"--net={self.host.path}", "qemu-io", "--image-opts", *words, *requested]
        return subprocess.run(inside, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def reads(self, at: Machine, **how: Any) -> bool:
        done = self.qemu_io(at, "read -P 0xab 0 1M", **how)
        return done.returncode == 0 and "read 1048576/1048576" in done.stdout


@contextmanager
def export(host: Machine, allowed: str, size: str = "8M", *, again: bool = False) -> Iterator[Path]:
    """Export a volume to the host of this id; without one, to everybody in plain text.  Gives the volume's file.

    ``again``: the volume that was exported before.
    """
    disk, monitor = host.folder / "v.qcow2", host.folder / "m"
    if not again:
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(disk), size], check=True)
    server, objects = f"addr.type=inet,addr.host=0.0.0.0,addr.port={PORT},max-connections=0", []
    if allowed:
        rules = [{"match": f"CN={allowed}", "policy": "allow", "format": "exact"}]
        authz = {"qom-type": "authz-list", "id": "a", "policy": "deny", "rules": rules}
        creds = f"tls-creds-x509,id=t,endpoint=server,verify-peer=yes,dir={host.certificates.folder}"
        objects = ["--object", creds, "--object", json.dumps(authz)]
        server += ",tls-creds=t,tls-authz=a"
    process = subprocess.Popen(
        ["nsenter", f"--net={host.host.path}", "qemu-storage-daemon",
         "--chardev", f"socket,path={monitor},server=on,wait=off,id=m", "--monitor", "chardev=m", *objects,
         "--nbd-server", server, "--blockdev", f"qcow2,node-name=v,file.driver=file,file.filename={disk}",
         "--export", f"nbd,id=e,node-name=v,name={EXPORT},writable=on"],
    )  # fmt: skip
    try:
        until(lambda: host.host.connects("127.0.0.1", PORT), "the daemon listens")
        yield disk
    finally:
        process.kill()
        process.wait()


@contextmanager
def sniffed(machine: Machine) -> Iterator[list[bytes]]:
    """Hear all that passes the cable."""
    heard: list[bytes] = []
    raw = machine.machine.do(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)))
    raw.bind(("cable", 0))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
    raw.settimeout(0.3)
    done = threading.Event()

    def hear() -> None:
        end = math.inf
        while time.monotonic() < end:
            try:
                heard.append(raw.recv(1 << 17))
            except TimeoutError:
                if done.is_set():
                    return
            except OSError:  # the cable is out
                time.sleep(0.05)
            if done.is_set():  # what is on its way is heard, too, though a guest may send for ever
                end = min(end, time.monotonic() + 1)

    thread = threading.Thread(target=hear)
    thread.start()
    try:
        yield heard
    finally:
        done.set()
        thread.join()
        raw.close()


def connect(one: Space, two: Space) -> None:
    """Lay the cable between two machines, and give them their addresses."""
    far = ("peer", "name", "cable", "netns", str(two.path))
    one.run("ip", "link", "add", "cable", "type", "veth", *far)
    for number, machine in enumerate((one, two), 1):
        machine.run("ip", "addr", "add", f"192.0.2.{number}/24", "dev", "cable")
        machine.run("ip", "link", "set", "cable", "up")


class Client:
    """A program that has the volume open, as a guest's QEMU has."""

    def __init__(self, here: Machine, at: Machine) -> None:
        words = (
            f"driver=nbd,host={at.address},port={PORT},export={EXPORT},tls-creds=t,tls-hostname={tls_hostname(at.id)}"
        )
        creds = f"tls-creds-x509,id=t,endpoint=client,dir={here.certificates.folder}"
        self.process = subprocess.Popen(
            ["nsenter", f"--net={here.host.path}", "qemu-io", "--object", creds, "--image-opts", words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def says(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def hears(self) -> str:
        """Return the next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, command: str) -> str:
        """Say one thing more and return all that it prints."""
        return self.process.communicate(f"{command}\nquit\n", timeout=120)[0]
