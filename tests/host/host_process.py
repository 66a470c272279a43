"""A process that is a host: the driver, the network and the image cache of an agent, called from the tests by a pipe.

It stands in a network namespace that the tests made; that one plays the machine's own: the real one is never touched.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from compute_agent.contract.build import ImageRef, InstanceSpec
from compute_agent.contract.power import PowerState
from compute_agent.network.kernel import namespace
from compute_agent.network.state import folding
from compute_agent.settings import AgentSettings
from compute_agent.virt.driver import ComputeDriver, PowerListener
from tests.host.cast import documents

ANSWER_SECONDS = 300.0


Files = Mapping[str, Path]
"""BootSources of further images, by their ids."""


def serve(
    calls: Connection, events: Connection, settings: AgentSettings, machine: Path, image: Path, files: Files
) -> None:
    """Be a host until the pipe is closed."""
    descriptor = os.open(machine, os.O_RDONLY)
    namespace.move(descriptor)
    if settings.netns is not None:
        namespace.enter(settings.netns)
    # Who tells one thing after the other waits for each; how changes are done together is tried elsewhere.
    folding.QUICK = folding.WINDOW = 0.0
    # Imported here, after the namespaces: what follows may start threads.
    from compute_agent.images.cache import ImageCache  # noqa: PLC0415
    from compute_agent.network.linux import LinuxNetwork  # noqa: PLC0415
    from compute_agent.servers import root_disks  # noqa: PLC0415
    from compute_agent.start.libvirt_host import daemons_of  # noqa: PLC0415
    from compute_agent.start.volumes import make_volumes  # noqa: PLC0415
    from compute_agent.virt.libvirt import kvm  # noqa: PLC0415
    from compute_agent.virt.libvirt.driver import LibvirtDriver  # noqa: PLC0415
    from compute_agent.volumes import services, watch  # noqa: PLC0415
    from compute_agent.volumes.rbd import images as rbd_images  # noqa: PLC0415
    from compute_agent.volumes.rbd import pool_lock  # noqa: PLC0415

    # Ceph may take its time on a busy machine.
    rbd_images.QUICK = pool_lock.QUICK = replace(rbd_images.QUICK, seconds=ANSWER_SECONDS / 2)
    root_disks.LISTED_WITHIN = services.ANSWERS_WITHIN = watch.ANSWERS_WITHIN = ANSWER_SECONDS / 2

    def fetch(wanted: ImageRef, _instance: str) -> Iterator[bytes]:
        with files.get(wanted.id, image).open("rb") as file:
            while piece := file.read(1 << 20):
                yield piece

    virt_type = kvm.prepare(settings)
    driver: ComputeDriver = LibvirtDriver(settings, virt_type)
    driver.on_power_change(lambda uuid, state: events.send((uuid, int(state))))
    foreign, monitor = Foreign(driver), Monitor(driver)
    images = ImageCache(settings.state_dir / "images", fetch, settings.state_dir / "instances")
    if settings.root_disks:
        volumes = make_volumes(settings, daemons_of(settings, None, str), services.Outside(images))
        assert volumes is not None
        driver = root_disks.PoolRootDisks(driver, volumes, settings.root_disks, settings.host)
    parts = {
        "driver": driver,
        "network": LinuxNetwork(settings, Listening()),
        "images": images,
        "foreign": foreign,
        "monitor": monitor,
    }
    while True:
        try:
            part, method, arguments, options = calls.recv()
        except EOFError:
            return
        try:
            calls.send((getattr(parts[part], method)(*arguments, **options), None))
        except Exception as error:  # noqa: BLE001
            calls.send((None, error))


class Listening:
    """Holds the sockets where guests ask for their metadata, and answers none."""

    def __init__(self) -> None:
        self._sockets: dict[str, Sequence[socket.socket]] = {}

    def opened(self, network_id: str, listening: Sequence[socket.socket]) -> None:
        self._sockets[network_id] = listening

    def closed(self, network_id: str) -> None:
        self._sockets.pop(network_id, None)


class Foreign:
    """Domains that somebody else made on the same hypervisor."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    @property
    def _connection(self) -> Any:
        return self._driver._hypervisor.get()

    def define(self, uuid: str) -> None:
        self._connection.defineXML(
            f"<domain type='qemu'><name>somebody-elses</name><uuid>{uuid}</uuid><memory unit='MiB'>32</memory>"
            "<os><type arch='x86_64' machine='pc'>hvm</type></os></domain>"
        )

    def names(self) -> list[str]:
        return [
            name for domain in self._connection.listAllDomains() if not (name := domain.name()).startswith("novella-")
        ]

    def take_away(self, uuid: str) -> None:
        """Destroy and undefine one of Novella's domains, as somebody with virsh would; its files stay."""
        domain = self._connection.lookupByUUIDString(uuid)
        if domain.isActive():
            domain.destroy()
        domain.undefine()

    def remove(self, uuid: str) -> None:
        self._connection.lookupByUUIDString(uuid).undefine()


class Monitor:
    """QEMU itself, past what libvirt knows."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def ask(self, uuid: str, command: str, **arguments: Any) -> Any:
        """Give QEMU a command; underscores in the names of arguments stand for hyphens."""
        import libvirt_qemu  # noqa: PLC0415 - see serve

        words = {"execute": command, "arguments": {name.replace("_", "-"): value for name, value in arguments.items()}}
        domain = self._driver._hypervisor.get().lookupByUUIDString(uuid)
        answer = json.loads(libvirt_qemu.qemuMonitorCommand(domain, json.dumps(words), 0))
        assert "return" in answer, answer
        return answer["return"]

    def visible(self, path: Path) -> str:
        """Return the name that QEMU has for a file of the state folder."""
        return str(self._driver._paths.visible(path))


class Part:
    """One part of a host, at the other end of the pipe."""

    def __init__(self, host: HostProcess, name: str) -> None:
        self._host, self._name = host, name

    def __getattr__(self, method: str) -> Any:
        return lambda *arguments, **options: self._host.call(self._name, method, arguments, options)


class HostProcess:
    """Starts the process; ``driver``, ``network`` and ``images`` are its parts."""

    def __init__(self, settings: AgentSettings, machine: Path, image: Path, files: Files | None = None) -> None:
        self.settings, self._machine, self._image, self._files = settings, machine, image, files or {}
        self.driver, self.network, self.images = Part(self, "driver"), Part(self, "network"), Part(self, "images")
        self.foreign, self.monitor = Part(self, "foreign"), Part(self, "monitor")
        self.listener: PowerListener | None = None
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._calls, theirs = context.Pipe()
        self._events, their_events = context.Pipe()
        arguments = (theirs, their_events, self.settings, self._machine, self._image, self._files)
        self.process = context.Process(target=serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        their_events.close()
        threading.Thread(target=self._hear, args=(self._events,), daemon=True).start()

    def call(self, part: str, method: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        self._calls.send((part, method, arguments, options))
        assert self._calls.poll(ANSWER_SECONDS), f"{part}.{method} does not answer"
        result, error = self._calls.recv()
        if error is not None:
            raise error
        return result

    def tell(self, *specs: InstanceSpec) -> None:
        """Tell the network of the networks and security groups of guests."""
        for document in documents(*specs):
            self.network.apply(document, 1)

    def kill(self) -> None:
        """End the process as a power failure would end an agent."""
        self.process.kill()
        self.process.join()
        self._calls.close()

    def _hear(self, events: Connection) -> None:
        while True:
            try:
                uuid, state = events.recv()
            except (EOFError, OSError):
                events.close()
                return
            if self.listener is not None:
                self.listener(uuid, PowerState(state))


class RemoteDriver(ComputeDriver):
    """The host's driver as a driver of the test's own process, so that it can be held to the contract."""

    def __init__(self, host: HostProcess) -> None:
        self._host = host

    def on_power_change(self, listener: PowerListener) -> None:
        self._host.listener = listener


def _forward(name: str) -> Any:
    def method(self: RemoteDriver, *arguments: Any, **options: Any) -> Any:
        return self._host.call("driver", name, arguments, options)

    return method


for _name in sorted(
    (ComputeDriver.__abstractmethods__ | {"needs_image", "leave", "adopt_disks", "restore_left_disk"})
    - {"on_power_change", "frozen"}
):
    setattr(RemoteDriver, _name, _forward(_name))
RemoteDriver.__abstractmethods__ = frozenset()
