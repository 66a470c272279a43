"""A real guest that is resized: what it sees inside, what comes back, and what is left on the host."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import FlavorRef, InstanceSpec
from compute_agent.contract.power import PowerState
from compute_agent.virt.errors import ImageUnacceptableError
from tests.host.cast import Wish
from tests.host.host_process import HostProcess
from tests.host.lab import PATIENCE, Lab, until
from tests.support.guest_image import GuestImage

GIB = 1 << 30
SCRIPT = r"""#!/bin/sh
cat >/root/tell <<'END'
echo >>/root/boots
sync
memory=$(awk '/MemTotal/ { print $2 }' /proc/meminfo)
boots=$(wc -l </root/boots)
echo "boot $boots memory $memory disk $(cat /sys/block/vda/size) swap $(cat /sys/block/vdb/size)." >/dev/console
END
echo '. /root/tell' >>/etc/rc.S
"""
"""Runs at the first start, and adds what runs at the end of every one, that one too."""
SMALL = FlavorRef(name="small", vcpus=1, memory_mb=128, root_gb=1, swap_mb=8)
LARGE = FlavorRef(name="large", vcpus=2, memory_mb=256, root_gb=2, swap_mb=16)


@dataclass(frozen=True)
class Told:
    """What a guest says of itself at each start: how often that was, MiB of memory, GiB of disk, MiB of swap."""

    boot: int
    memory_mb: int
    disk_gb: int
    swap_mb: int


@dataclass
class Stage:
    host: HostProcess
    spec: InstanceSpec
    folder: Path
    read: int = 0

    def starts(self) -> Told:
        """Start the guest and hear what it says."""
        driver, uuid = self.host.driver, self.spec.uuid
        self.read = driver.console_output(uuid, 0, 1_000_000).end
        driver.start(uuid)
        assert driver.wait_for_boot(uuid, PATIENCE) == PowerState.RUNNING
        return self.notified()

    def notified(self) -> Told:
        pattern = re.compile(rb"boot +(\d+) memory (\d+) disk (\d+) swap (\d+)\.")

        def look() -> re.Match[bytes] | None:
            return pattern.search(self.host.driver.console_output(self.spec.uuid, self.read, 1_000_000).data)

        result = until(look, "what the guest says of itself")
        assert result is not None
        boot, kib, sectors, swap = (int(text) for text in result.groups())
        return Told(boot, kib // 1024, sectors * 512 // GIB, swap * 512 // (1 << 20))

    def resized_to(self, flavor: FlavorRef) -> InstanceSpec:
        return replace(self.spec, flavor=flavor)

    def stop(self) -> None:
        self.host.driver.stop(self.spec.uuid, 20.0)

    def lies_on(self) -> str:
        """The file under the root disk."""
        command = ["qemu-img", "info", "-U", "--output=json", str(self.folder / "disk.qcow2")]
        info = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return str(info["full-backing-filename"])

    def kept(self) -> set[str]:
        return {path.name for path in self.folder.iterdir() if "before" in path.name}


@pytest.fixture(scope="module")
def stage(lab: Lab, image: GuestImage) -> Iterator[Stage]:
    host = HostProcess(lab.settings, lab.machine.path, image.path)
    host.driver.init_host()
    user_data = base64.b64encode(SCRIPT.encode()).decode()
    spec = replace(Wish(1, image=image.ref, user_data=user_data).spec(), ports=[], flavor=SMALL)
    host.driver.create_disk(spec, host.images.get(spec.image, spec.uuid).path)
    host.driver.create_seed(spec)
    host.driver.define(spec, 1)
    yield Stage(host, spec, lab.settings.state_dir / "instances" / spec.uuid)
    host.kill()


@pytest.mark.deep
def test_a_guest_sees_its_new_size_and_goes_back_to_what_it_had(stage: Stage) -> None:
    driver, larger = stage.host.driver, stage.resized_to(LARGE)
    before = stage.starts()
    assert (before.boot, before.disk_gb, before.swap_mb) == (1, 1, 8)
    assert 80 < before.memory_mb < 128
    base = stage.lies_on()
    stage.stop()
    for _ in range(2):  # as after the death of an agent
        driver.resize(larger, 1)
    assert stage.kept() == {"disk.qcow2.before", "swap.raw.before"}
    after = stage.starts()
    assert (after.boot, after.disk_gb, after.swap_mb) == (2, 2, 16)
    assert 200 < after.memory_mb < 256
    stage.stop()
    for _ in range(2):
        driver.revert_resize(stage.spec, 1)
    assert (stage.kept(), stage.lies_on()) == (set(), base)
    assert stage.starts() == Told(2, before.memory_mb, 1, 8)  # what it wrote meanwhile is gone with its disk
    stage.stop()


@pytest.mark.deep
def test_what_is_kept_is_written_together_while_the_guest_goes_on_and_while_it_is_off(stage: Stage) -> None:
    driver = stage.host.driver
    base = stage.lies_on()
    driver.resize(stage.resized_to(LARGE), 1)
    assert Path(stage.lies_on()).name == "disk.qcow2.before"
    reported = stage.starts()
    for _ in range(2):
        driver.confirm_resize(stage.spec.uuid)
    assert driver.power_state(stage.spec.uuid) == PowerState.RUNNING
    assert (stage.kept(), stage.lies_on()) == (set(), base)
    stage.stop()
    driver.resize(stage.resized_to(replace(LARGE, memory_mb=160, root_gb=3, swap_mb=8)), 1)
    driver.confirm_resize(stage.spec.uuid)
    assert (stage.kept(), stage.lies_on()) == (set(), base)
    again = stage.starts()
    assert (again.boot, again.disk_gb, again.swap_mb) == (reported.boot + 1, 3, 8)
    stage.stop()
    with pytest.raises(ImageUnacceptableError, match="has 3 GiB and cannot shrink"):
        driver.resize(stage.resized_to(LARGE), 1)
    driver.revert_resize(stage.resized_to(replace(LARGE, memory_mb=160, root_gb=3, swap_mb=8)), 1)
    assert stage.kept() == set()
    driver.destroy(stage.spec.uuid)
    assert not stage.folder.exists()
