"""Runs the operations of Novella on volumes with QEMU's own programs, QMP and libvirt.

``tools.bench.volumes.command`` runs it. ``python bin/libexec tools.bench.volumes.bare IMAGE TIMES`` prints the
seconds of each operation as JSON. With ``--turns N`` it prints the speed of a guest's disk; this guest and
Novella's guest measure in turns, never at the same time. It must run as root, in its own namespaces.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import subprocess
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import libvirt
from msgspec.structs import replace

from compute_agent.contract.build import GuestDisk, VolumeConnection
from compute_agent.settings import AgentSettings
from compute_agent.virt.libvirt import kvm, reopening
from compute_agent.virt.libvirt.disk_xml import volume_element
from compute_agent.virt.libvirt.disks import GIB
from compute_agent.virt.libvirt.domain_xml import domain_xml
from compute_agent.virt.libvirt.paths import HostPaths
from compute_agent.virt.libvirt.seed import write_seed
from compute_agent.volumes.daemons.qmp import Qmp
from tools.bench import bare
from tools.bench.volumes import guest

import xml.etree.ElementTree as ET  # isort: skip

REST = 0.3
"""Seconds of rest before each measurement."""
EMPTY = ("qemu-img", "create", "-q", "-f", "qcow2")


def node(name: str, path: Path) -> dict[str, Any]:
    return {
        "driver": "qcow2", "node-name": name, "discard": "unmap",
        "file": {"driver": "file", "filename": str(path), "discard": "unmap"},
    }  # fmt: skip


@dataclass
class Volume:
    """A qcow2 file with a storage daemon, used as described in their manual pages."""

    folder: Path
    size: int = 1
    layers: int = 1
    exports: int = 1
    key: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def file(self) -> Path:
        return self.folder / f"{self.key}.{self.layers}"

    def create(self, *backing: str) -> None:
        subprocess.run([*EMPTY, *backing, str(self.file), f"{self.size}G"], check=True)

    def serve(self) -> None:
        """Start the daemon, which exports the volume as Novella does: a write is acknowledged when the data
        is stored.
        """
        where = self.folder / self.key
        command = ["qemu-storage-daemon", "--daemonize", "--pidfile", f"{where}.pid"]
        command += ["--chardev", f"socket,path={where}.qmp,server=on,wait=off,id=qmp", "--monitor", "chardev=qmp"]
        command += ["--blockdev", json.dumps(node("n1", self.file))]
        command += ["--nbd-server", f"addr.type=unix,addr.path={where}.sock"]
        command += ["--export", "nbd,id=e1,node-name=n1,name=e1,writable=on,writethrough=on"]
        subprocess.run(command, check=True)

    def monitor(self) -> Qmp:
        return Qmp(self.folder / f"{self.key}.qmp")

    def push(self, size: int) -> None:
        """Add an empty layer; the layers below it no longer change."""
        below, self.layers, self.size = self.file, self.layers + 1, size
        self.create("-u", "-b", str(below), "-F", "qcow2")
        with self.monitor() as qmp:
            qmp.execute("blockdev-add", **node(f"n{self.layers}", self.file), backing=None)
            qmp.execute("blockdev-snapshot", node=f"n{self.layers - 1}", overlay=f"n{self.layers}")

    @property
    def disk(self) -> GuestDisk:
        connection = VolumeConnection(export=f"e{self.exports}", socket=str(self.folder / f"{self.key}.sock"))
        return GuestDisk(id=self.key, attachment_id="", size_gb=self.size, connection=connection)

    def attach(self, domain: Any) -> None:
        self.serve()
        domain.attachDeviceFlags(self.xml(), libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def xml(self) -> str:
        return ET.tostring(volume_element(self.disk, "vdb"), encoding="unicode")

    def grow(self, domain: Any, size: int) -> None:
        """Change the size of the volume and of the disk in its running guest."""
        self.push(size)
        self.exports += 1
        name = f"e{self.exports}"
        with self.monitor() as qmp:
            qmp.execute(
                "block-export-add", type="nbd", id=name, node_name=f"n{self.layers}", name=name, writable=True,
                writethrough=True,
            )  # fmt: skip
        source = ET.fromstring(domain.XMLDesc()).find("./devices/disk/target[@dev='vdb']/../source")  # noqa: S314
        reopening.move(domain, source.get("index", "") if source is not None else "", self.disk.connection, "")
        domain.blockResize("vdb", size * GIB, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)
        with self.monitor() as qmp:
            qmp.execute("block-export-del", id=f"e{self.exports - 1}", mode="hard")

    def end(self) -> None:
        with self.monitor() as qmp:
            qmp.execute("quit")
        for path in self.folder.glob(f"{self.key}.*"):
            path.unlink(missing_ok=True)


class Host:
    """libvirt, and an image from which guests are started."""

    def __init__(self, image: Path, folder: Path) -> None:
        self.folder = folder
        self._kind = kvm.prepare(AgentSettings(host="bare", state_dir=folder))
        self._paths = HostPaths(folder)
        self._paths.prepare()
        self.base = folder / "base.raw"
        subprocess.run(["qemu-img", "convert", "-O", "raw", str(image), str(self.base)], check=True)
        self.hypervisor = bare.connect(self._paths)

    def start(self, script: str, volume: Volume | None = None) -> tuple[Any, Path]:
        """Start a guest, from ``volume`` if one is given. Returns the guest and the path of its console log."""
        spec = replace(bare.spec(), user_data=base64.b64encode(script.encode()).decode())
        if volume is not None:
            spec = replace(spec, volumes=[replace(volume.disk, boot_index=0)])
        where = self._paths.instance(spec.uuid)
        where.folder.mkdir(parents=True)
        if volume is None:
            backing = ["-b", str(self.base), "-F", "raw", str(where.root_disk), "1G"]
            subprocess.run([*EMPTY, *backing], check=True)
        write_seed(spec, where)
        where.hand_over()
        return self.hypervisor.get().createXML(domain_xml(spec, 1, where, self._kind), 0), where.console_log


def timed(spent: dict[str, list[float]], what: str, work: Callable[[], object]) -> None:
    time.sleep(REST)
    began = time.perf_counter()
    work()
    spent[what].append(time.perf_counter() - began)


def operations(host: Host, times: int) -> dict[str, list[float]]:
    """Return the seconds of each operation."""
    spent: dict[str, list[float]] = defaultdict(list)
    started: list[Any] = []
    domain, log = host.start("#!/bin/sh\necho '+ready'\n")
    guest.until(lambda: "+ready" in log.read_text(errors="replace"), "the guest is ready")
    for _ in range(times):
        volume = Volume(host.folder)
        timed(spent, "create", volume.create)
        timed(spent, "attach", lambda volume=volume: volume.attach(domain))  # type: ignore[misc]
        timed(spent, "snapshot", lambda volume=volume: volume.push(1))  # type: ignore[misc]
        timed(spent, "grow", lambda volume=volume: volume.grow(domain, 2))  # type: ignore[misc]
        domain.detachDeviceFlags(volume.xml(), libvirt.VIR_DOMAIN_AFFECT_LIVE)
        guest.until(lambda: "'vdb'" not in domain.XMLDesc(), "the guest lets go")
        volume.end()
    domain.destroy()
    for _ in range(times):
        root = Volume(host.folder)
        timed(spent, "ordinary", lambda: started.append(_boot(host, None)))
        started.pop().destroy()
        timed(spent, "from a volume", lambda volume=root: started.append(_boot(host, volume)))  # type: ignore[misc]
        started.pop().destroy()
        root.end()
    return spent


def _boot(host: Host, volume: Volume | None) -> Any:
    if volume is not None:
        volume.create("-b", str(host.base), "-F", "raw")
        volume.serve()
    return host.start("", volume)[0]


def throughput(host: Host, turns: int) -> guest.Figures:
    """Return a guest's measurements of its disk."""
    domain, log = host.start(guest.measures(turns, 1))
    volume = Volume(host.folder)
    volume.create()
    volume.attach(domain)
    try:
        return guest.figures(log, turns)
    finally:
        domain.destroy()
        volume.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", type=Path)
    parser.add_argument("times", type=int)
    parser.add_argument("--turns", type=int, default=0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="nvb-", dir=bare.RUN))
    try:
        host = Host(options.image, folder)
        found = throughput(host, options.turns) if options.turns else operations(host, options.times)
        print(json.dumps(found))
        host.hypervisor.close()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
