"""Copies of real disks: taken while the guest goes on, while it is off, and after the death of an agent; guests boot
from them with all that was written before.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import ImageRef, InstanceSpec
from compute_agent.contract.power import PowerState
from compute_agent.images.cache import ImageCache
from tests.host.cast import EGRESS, SSH, Wish
from tests.host.disks import file_on
from tests.host.host_process import HostProcess
from tests.host.lab import PATIENCE, Lab, until
from tests.host.test_guest import console
from tests.host.woken import wake
from tests.support.guest_image import GuestImage

USER_DATA = base64.b64encode(b"#!/bin/sh\necho first boot >>/root/first\n").decode()

BOOTED = "/var/lib/novella/instance-id"
"""Where our guests note for which server they have run the user data."""
EMPTY = 512 << 10
"""Bytes on the disk; a copy that was only made has fewer."""


@dataclass
class Stage:
    """A guest that lets everybody in by SSH, and where its copies are kept."""

    lab: Lab
    host: HostProcess
    spec: InstanceSpec
    key: Path
    folder: Path

    def ssh(self, command: str) -> str:
        """Run a command in the guest."""
        return self.lab.ssh(self.key, self.spec, command)

    def copy(self, name: str) -> Path:
        """Copy the guest's disk as the manager does, and look into the copy."""
        path = self.folder / name
        self.host.driver.snapshot(self.spec.uuid, path, "qcow2")
        subprocess.run(["qemu-img", "check", "-q", str(path)], check=True)
        info = json.loads(subprocess.run(["qemu-img", "info", "--output=json", str(path)], capture_output=True).stdout)
        assert (info["format"], info["virtual-size"]) == ("qcow2", self.spec.flavor.root_gb << 30)
        assert "backing-filename" not in info
        return path

    def base_of(self, copy: Path) -> Path:
        """Take a copy into an image cache, as the bits of an image that came from the portal."""
        bits = copy.read_bytes()
        image = ImageRef(
            id="9c000000-0000-4000-8000-0000000000bb",
            name="copy",
            disk_format="qcow2",
            size=len(bits),
            hash_algo="sha512",
            hash_value=hashlib.sha512(bits).hexdigest(),
        )
        return ImageCache(self.folder / "cache", lambda *_: [bits], self.folder).get(image, self.spec.uuid).path

    def boot(self, spec: InstanceSpec, base: Path, attempt: int) -> None:
        """Build a guest on a base of its own and wait for its login prompt."""
        driver = self.host.driver
        self.host.tell(spec)
        self.host.network.plug(spec)
        driver.create_disk(spec, base)
        driver.create_seed(spec)
        driver.define(spec, attempt)
        self.host.network.apply_firewall(spec)
        self.lab.hang_up()
        driver.start(spec.uuid)
        assert driver.wait_for_boot(spec.uuid, PATIENCE) == PowerState.RUNNING
        until(lambda: "login:" in console(self.host, spec), "the guest's login prompt")


@pytest.fixture(scope="module")
def stage(lab: Lab, image: GuestImage, key: Path) -> Iterator[Stage]:
    host = HostProcess(lab.settings, lab.machine.path, image.path)
    host.network.init_host()
    host.driver.init_host()
    public = key.with_suffix(".pub").read_text()
    spec = Wish(1, rules=(EGRESS, SSH), image=image.ref, public_key=public).spec()
    wake(host, spec)
    yield Stage(lab, host, spec, key, lab.settings.state_dir / "outgoing")
    host.kill()


def test_the_guest_goes_on_and_the_copy_has_what_was_written_before(stage: Stage) -> None:
    began = float(stage.ssh("cut -d' ' -f1 /proc/uptime; echo before >/root/proof; sync").splitlines()[0])
    path = stage.copy("running.qcow2")
    stage.ssh("echo after >>/root/proof; sync")
    assert float(stage.ssh("cut -d' ' -f1 /proc/uptime")) > began
    assert stage.host.driver.power_state(stage.spec.uuid) == PowerState.RUNNING
    assert file_on(stage.base_of(path), "/root/proof") == "before\n"
    assert stage.ssh("cat /root/proof").splitlines() == ["before", "after"]


@pytest.mark.deep
def test_another_guest_boots_from_the_copy(stage: Stage) -> None:
    stage.ssh("echo before >/root/proof; sync")
    path = stage.copy("running.qcow2")
    stage.ssh("echo after >>/root/proof; sync")
    other = replace(Wish(2, rules=(EGRESS, SSH), public_key=stage.spec.key_pair.public_key).spec())  # type: ignore[union-attr]
    there = Stage(stage.lab, stage.host, other, stage.key, stage.folder)
    there.boot(other, stage.base_of(path), 1)
    assert there.ssh("cat /root/proof; hostname").splitlines() == ["before", "web-2"]
    assert stage.ssh("cat /root/proof").splitlines() == ["before", "after"]
    stage.host.driver.destroy(other.uuid)
    stage.host.network.unplug(other.uuid)


@pytest.mark.deep
def test_an_agent_that_dies_over_a_copy_begins_anew_and_the_guest_does_not_notice(stage: Stage) -> None:
    began = float(stage.ssh("cut -d' ' -f1 /proc/uptime"))
    path = stage.folder / "broken-off.qcow2"

    def copy() -> None:
        with suppress(Exception):
            stage.host.driver.snapshot(stage.spec.uuid, path, "qcow2")

    copying = threading.Thread(target=copy)
    copying.start()
    until(lambda: path.exists() and path.stat().st_blocks * 512 > EMPTY, "the copy is under way")
    stage.host.process.kill()
    stage.host.process.join()
    copying.join()
    stage.host.start()
    stage.host.network.init_host()
    stage.host.driver.init_host()
    stage.host.network.restore([stage.spec])
    assert stage.copy("broken-off.qcow2") == path
    assert float(stage.ssh("cut -d' ' -f1 /proc/uptime")) > began


@pytest.mark.deep
def test_what_was_asleep_when_it_was_copied_wakes_where_it_was(stage: Stage) -> None:
    began = float(stage.ssh("cut -d' ' -f1 /proc/uptime"))
    driver, uuid = stage.host.driver, stage.spec.uuid
    for sleep, go_on in ((driver.pause, driver.unpause), (driver.suspend, driver.resume)):
        sleep(uuid)
        state = driver.power_state(uuid)
        stage.copy("asleep.qcow2")
        assert driver.power_state(uuid) == state
        go_on(uuid)
        assert driver.wait_for_boot(uuid, PATIENCE) == PowerState.RUNNING
    assert float(until(lambda: stage.ssh("cut -d' ' -f1 /proc/uptime"), "the guest's answer")) > began


@pytest.mark.deep
def test_a_guest_leaves_its_host_and_comes_back_as_itself(stage: Stage) -> None:
    # A guest that woke remembers the id of the one that booted: as itself it has run its user data.
    stage.ssh(f"echo kept >/root/kept; echo first boot >/root/first; echo {stage.spec.uuid} >{BOOTED}")
    stage.host.driver.stop(stage.spec.uuid, PATIENCE)
    path = stage.copy("shelved.qcow2")
    stage.host.driver.destroy(stage.spec.uuid)
    stage.host.network.unplug(stage.spec.uuid)
    assert stage.host.driver.guests() == []
    stage.boot(replace(stage.spec, user_data=USER_DATA), stage.base_of(path), 2)
    output = stage.ssh("cat /root/kept /root/first; hostname; cat /sys/class/net/eth0/address").splitlines()
    assert output == ["kept", "first boot", "web-1", stage.spec.ports[0].mac_address]
