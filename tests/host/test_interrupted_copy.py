"""A copy of a running guest's disk whose agent died before libvirt had noted it: QEMU goes on with it, libvirt knows
nothing of it, and the next agent ends it, so that the guest's disk can be copied again.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.host.cast import Wish
from tests.host.host_process import HostProcess
from tests.host.lab import PATIENCE, Lab, until
from tests.host.test_guest import launch
from tests.support.guest_image import GuestImage

SLOW = 65536
"""Bytes a second: a copy that does not end while it is looked at."""


class Guest:
    """A running guest, in which nothing happens."""

    def __init__(self, lab: Lab, image: GuestImage) -> None:
        self.lab, self.folder = lab, lab.settings.state_dir / "outgoing"
        self.host = HostProcess(lab.settings, lab.machine.path, image.path)
        self.host.network.init_host()
        self.host.driver.init_host()
        self.spec = Wish(1, image=image.ref).spec()
        launch(self.host, self.spec)
        self.nodes = self.block_nodes()

    @property
    def note(self) -> Path:
        """What libvirt keeps of the guest while it runs."""
        (note,) = self.lab.settings.state_dir.glob("libvirt/run/qemu/novella-*.xml")
        return note

    def ask(self, command: str, **arguments: Any) -> Any:
        return self.host.monitor.ask(self.spec.uuid, command, **arguments)

    def block_nodes(self) -> set[str]:
        return {node["node-name"] for node in self.ask("query-named-block-nodes", flat=True)}

    def jobs(self) -> list[str]:
        return [job["id"] for job in self.ask("query-jobs")]

    def copy(self) -> Path:
        path = self.folder / "copy.qcow2"
        self.host.driver.snapshot(self.spec.uuid, path, "qcow2")
        return path

    def agent_dies(self) -> None:
        self.host.kill()

    def agent_comes_back(self) -> None:
        self.host.start()
        self.host.network.init_host()
        self.host.driver.init_host()
        self.host.network.restore([self.spec])

    def backup_begins(self) -> None:
        """Begin what libvirt would begin for the next copy, with the names that it would use, without libvirt."""
        path = self.copy()  # a file that QEMU may write
        match = re.search(r"<nodename index='(\d+)'/>", self.note.read_text())
        assert match is not None
        file, node = (f"libvirt-{int(match[1]) + 1}-{part}" for part in ("storage", "format"))
        visible = self.host.monitor.visible(path)
        self.ask("blockdev-add", driver="file", node_name=file, filename=visible)
        self.ask("blockdev-add", driver="qcow2", node_name=node, file=file)
        (root, *_) = [disk["inserted"]["node-name"] for disk in self.ask("query-block") if not disk["inserted"]["ro"]]
        job = f"backup-vda-{node}"
        self.ask("blockdev-backup", job_id=job, device=root, target=node, sync="full", auto_dismiss=False, speed=SLOW)
        assert self.jobs() == [job]


@pytest.fixture(scope="module")
def guest(lab: Lab, small: GuestImage) -> Iterator[Guest]:
    guest = Guest(lab, small)
    yield guest
    guest.agent_dies()


@pytest.mark.deep
def test_what_qemu_copies_for_nobody_ends_with_the_start_of_the_agent(guest: Guest) -> None:
    guest.backup_begins()
    guest.agent_dies()
    guest.agent_comes_back()
    until(lambda: not guest.jobs() and guest.block_nodes() == guest.nodes, "the copy's end")


def test_a_copy_ends_what_qemu_copies_for_nobody_before_it_begins(guest: Guest) -> None:
    guest.backup_begins()
    assert guest.copy().exists()
    assert guest.jobs() == []
    assert guest.block_nodes() == guest.nodes


class Monitor:
    """Stands between libvirt and QEMU, and stops passing on QEMU's words once it was told to begin a copy."""

    def __init__(self, path: Path) -> None:
        self.begun = threading.Event()
        self._path, self._real = path, path.with_suffix(".real")
        path.rename(self._real)
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(path))
        self._door.listen(1)
        path.chmod(self._real.stat().st_mode)
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        client, _ = self._door.accept()
        qemu = socket.socket(socket.AF_UNIX)
        qemu.connect(str(self._real))
        self._ends = [client, qemu]
        threading.Thread(target=self._answers, args=(qemu, client), daemon=True).start()
        with suppress(OSError), client.makefile("rb") as words:
            for line in words:
                qemu.sendall(line)

    def _answers(self, qemu: socket.socket, client: socket.socket) -> None:
        with suppress(OSError), qemu.makefile("rb") as words:
            for line in words:
                if b'"JOB_STATUS_CHANGE"' in line and b'"running"' in line:
                    self.begun.set()
                if not self.begun.is_set():
                    client.sendall(line)

    def go(self) -> None:
        """Put QEMU's own socket back."""
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._door.close()
        self._path.unlink()
        self._real.rename(self._path)


def test_an_agent_that_dies_before_libvirt_has_noted_the_copy_copies_again(guest: Guest) -> None:
    (path,) = guest.lab.settings.state_dir.glob("libvirt/lib/qemu/domain-*/monitor.sock")
    guest.agent_dies()
    between = Monitor(path)
    guest.agent_comes_back()

    def copy() -> None:
        with suppress(EOFError, OSError):  # killed over it
            guest.copy()

    copying = threading.Thread(target=copy)
    copying.start()
    assert between.begun.wait(PATIENCE)
    assert "async='backup'" in guest.note.read_text()
    assert "<domainbackup" not in guest.note.read_text()
    guest.host.process.kill()
    copying.join()
    guest.agent_dies()
    between.go()
    guest.agent_comes_back()
    assert guest.copy().exists()
    assert guest.jobs() == []
    assert guest.block_nodes() == guest.nodes
