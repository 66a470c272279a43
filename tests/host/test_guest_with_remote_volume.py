"""A real guest with a volume of another host: over TLS, through new certificates, a cut cable and a dead daemon."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from compute_agent.contract.build import GuestDisk
from compute_agent.contract.power import PowerState
from compute_agent.virt.errors import HostError
from compute_agent.virt.machine.certificates import HostCertificates
from tests.host.cast import EGRESS, OURS, PING, SSH, Wish
from tests.host.host_process import HostProcess
from tests.host.lab import Lab, until
from tests.host.machines import ATTACHMENT, Machine, connect, export, sign, sniffed
from tests.host.test_volumes import Stage
from tests.host.woken import wake
from tests.support.guest_image import GuestImage

GUESTS = str(uuid.uuid4())
"""The id of the guest's host."""


@pytest.fixture
def storage(lab: Lab, tmp_path: Path) -> Iterator[Machine]:
    """The other host, where the volume lies."""
    machine = Machine(1, tmp_path, f"nvr{os.getpid()}")
    connect(machine.machine, lab.machine)
    machine.join()
    yield machine
    machine.host.remove()
    machine.machine.remove()


@pytest.fixture
def stage(lab: Lab, image: GuestImage, key: Path) -> Iterator[Stage]:
    host = HostProcess(lab.settings, lab.machine.path, image.path)
    host.network.init_host()
    host.driver.init_host()
    public = key.with_suffix(".pub").read_text()
    web = Wish(1, rules=(EGRESS, SSH, PING), groups=(OURS,), image=image.ref, public_key=public).spec()
    wake(host, web)
    yield Stage(lab, host, web, key, lambda **_: pytest.fail("no daemon of this host"))
    host.kill()


def wrong(volume: Path, blocks: int) -> list[int]:
    """Return which of the blocks that the guest has written the closed volume does not have."""
    raw = volume.with_suffix(".raw")
    words = ["qemu-img", "dd", "-f", "qcow2", "-O", "raw", "bs=1M", "count=16", f"if={volume}", f"of={raw}"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    content = raw.read_bytes()
    return [number for number in range(blocks) if content[number * 4096 :][:4096] != b"%4096d" % number]


@pytest.mark.deep
def test_it_writes_through_new_certificates_a_cable_that_is_out_and_a_dead_daemon(
    stage: Stage, storage: Machine, lab: Lab
) -> None:
    certificates = HostCertificates(lab.settings.state_dir)
    sign(certificates, GUESTS)
    disk = GuestDisk(id=str(uuid.uuid4()), attachment_id=ATTACHMENT, size_gb=1, device="vdb",
                     connection=storage.connection())  # fmt: skip
    with export(storage, str(uuid.uuid4()), "1G"), pytest.raises(HostError):
        stage.attach(disk)  # the daemon was told of another host
    with export(storage, GUESTS, "1G") as volume, sniffed(storage) as heard:
        stage.attach(disk)
        stage.begin_to_write()
        sign(certificates, GUESTS)
        storage.sign()
        stage.writes_on()
        storage.machine.run("ip", "link", "set", "cable", "down")
        assert stage.power() == PowerState.RUNNING
        storage.machine.run("ip", "link", "set", "cable", "up")
        stage.writes_on()
        assert stage.power() == PowerState.RUNNING
    until(lambda: stage.power() == PowerState.PAUSED, "the guest that waits for its volume")
    readable = sum(b" " * 256 in frame for frame in heard)  # what it writes is mostly blanks
    assert readable == 0
    with export(storage, GUESTS, again=True):
        until(lambda: stage.host.driver.resume_after_error(stage.web.uuid), "the guest goes on")
        stage.writes_on()
        blocks = stage.end_writing()
        stage.detach(disk)
    assert blocks > 5
    assert wrong(volume, blocks) == []
