"""Migrates a guest between two libvirt daemons without Novella, and prints the seconds of the move and of its pause.

``tools.bench.moves.command`` runs it as root in its own namespaces: ``python bin/libexec tools.bench.moves.bare IMAGE``
starts the daemons and a guest, and prints ``ready``. For each line of the input it creates the disk on the other
host, calls libvirt's five phases, and prints both durations.
"""

from __future__ import annotations

import queue
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import libvirt

from compute_agent.contract.build import InstanceSpec
from compute_agent.settings import AgentSettings
from compute_agent.virt.libvirt import five_phases, kvm, own_daemon, qemu_conf
from compute_agent.virt.libvirt.arriving_xml import arriving_xml, sized_disks
from compute_agent.virt.libvirt.connection import DAEMON, Connection, start_event_loop
from compute_agent.virt.libvirt.domain_xml import domain_name, domain_xml
from compute_agent.virt.libvirt.migration import BASIC, LOCAL, OWN_NAME, XML
from compute_agent.virt.libvirt.paths import HostPaths, InstancePaths
from compute_agent.virt.libvirt.seed import write_seed
from tools.bench.bare import RUN, spec
from up.programs import tool

BOOTED_WITHIN = 120.0
EVENT_WITHIN = 60.0
FLAGS = BASIC | LOCAL


class Host:
    """A libvirt daemon in a process and a mount namespace of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.name = folder.name
        self._daemon = subprocess.Popen(
            tool("tools.bench.moves.bare", "--daemon", str(folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._daemon.stdout is not None  # noqa: S101 - asked for above
        if self._daemon.stdout.readline().strip() != "ready":
            raise SystemExit(f"libvirt's daemon does not start in {folder}")
        self.paths = HostPaths(folder)
        self._events: queue.SimpleQueue[tuple[int, float]] = queue.SimpleQueue()
        self.connection = libvirt.open(own_daemon.uri(self.paths.libvirt_root))
        kind = libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE
        self.connection.domainEventRegisterAny(None, kind, self._changed, None)

    def _changed(self, _connection: Any, _domain: Any, event: int, _detail: int, _opaque: object) -> None:
        self._events.put((event, time.monotonic()))

    def forget_events(self) -> None:
        while not self._events.empty():
            self._events.get()

    def moment(self, wanted: int) -> float:
        """Wait for an event of the guest; return its time."""
        while True:
            event, at = self._events.get(timeout=EVENT_WITHIN)
            if event == wanted:
                return at

    def disk(self, guest: InstanceSpec, base: Path) -> InstancePaths:
        where = self.paths.instance(guest.uuid)
        where.folder.mkdir(parents=True)
        overlay = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", "raw", str(where.root_disk), "1G"]
        subprocess.run(overlay, check=True)
        write_seed(guest, where)
        where.hand_over()
        return where

    def named(self, cookie: bytes) -> bytes:
        """Give the host its own name in a cookie: libvirt refuses a migration to a host with the same name."""
        return OWN_NAME.sub(f"<hostname>bare-{self.name}</hostname>".encode(), cookie)

    def end(self) -> None:
        self.connection.close()
        self._daemon.communicate("end\n", timeout=BOOTED_WITHIN)
        self.paths.remove_short()


def daemon(folder: Path) -> None:
    """Run libvirt's daemon until the input has a line."""
    settings = AgentSettings(host=folder.name, state_dir=folder, libvirt_uri="daemon", guest_user="root")
    kvm.prepare(settings)
    paths = HostPaths(folder)
    paths.prepare()
    conf = qemu_conf.render(paths.account, [], paths.certificates)
    connection = Connection(f"{DAEMON}{paths.libvirt_root}", lambda *_: None, lambda: None, conf)
    connection.open()
    print("ready", flush=True)
    sys.stdin.readline()
    connection.close()


def migrate(domain: Any, guest: InstanceSpec, source: Host, target: Host, base: Path) -> Any:
    """Migrate the guest with its disk; return it on the target."""
    where = target.disk(guest, base)
    memory, disks = (f"unix://{where.folder}/{name}.sock" for name in ("memory", "disks"))
    offered = domain.XMLDesc(XML)
    xml = arriving_xml(domain_xml(guest, 1, where, "qemu"), offered)
    names: dict[str, Any] = {libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS: sized_disks(offered)}
    shape = {libvirt.VIR_MIGRATE_PARAM_DEST_XML: xml}
    ways = {libvirt.VIR_MIGRATE_PARAM_URI: memory, libvirt.VIR_MIGRATE_PARAM_DISKS_URI: disks}
    name = {libvirt.VIR_MIGRATE_PARAM_DEST_NAME: domain_name(guest.uuid)}
    begun = source.named(five_phases.begin(domain, shape | names, FLAGS))
    prepared = target.named(five_phases.prepare(target.connection, shape | ways | names, begun, FLAGS))
    performed = source.named(five_phases.perform(domain, ways | names, prepared, FLAGS))
    finished = five_phases.finish(target.connection, name, performed, FLAGS, cancelled=False)
    five_phases.confirm(domain, name, target.named(finished), FLAGS, cancelled=False)
    return target.connection.lookupByName(domain_name(guest.uuid))


def serve(image: Path, folder: Path) -> None:
    base = folder / "base.raw"
    subprocess.run(["qemu-img", "convert", "-O", "raw", str(image), str(base)], check=True)
    start_event_loop()
    source, target = (Host(folder / name) for name in ("a", "b"))
    guest = spec()
    where = source.disk(guest, base)
    domain = source.connection.createXML(domain_xml(guest, 1, where, "qemu"), 0)
    try:
        deadline = time.monotonic() + BOOTED_WITHIN
        while "login:" not in where.console_log.read_text(errors="replace"):
            if time.monotonic() > deadline:
                raise SystemExit("the guest does not boot")
            time.sleep(0.2)
        print("ready", flush=True)
        for _ in sys.stdin:
            source.forget_events()
            target.forget_events()
            began = time.monotonic()
            domain = migrate(domain, guest, source, target, base)
            spent = time.monotonic() - began
            pause = target.moment(libvirt.VIR_DOMAIN_EVENT_RESUMED) - source.moment(libvirt.VIR_DOMAIN_EVENT_SUSPENDED)
            print(spent, pause, flush=True)
            shutil.rmtree(source.paths.instance(guest.uuid).folder)
            source, target = target, source
    finally:
        domain.destroy()
        source.end()
        target.end()


def main() -> None:
    if sys.argv[1] == "--daemon":
        daemon(Path(sys.argv[2]))
        return
    folder = Path(tempfile.mkdtemp(prefix="nvb-", dir=RUN))
    try:
        serve(Path(sys.argv[1]), folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
