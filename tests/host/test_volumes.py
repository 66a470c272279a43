"""Volumes of real guests: plugged in, booted from, grown, swapped, lost and found again, while the guest writes."""

from __future__ import annotations

import uuid
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from msgspec.structs import replace

from compute_agent.contract.build import GuestDisk, InstanceSpec, LocalDisk
from compute_agent.contract.certificates import Certificate, tls_hostname
from compute_agent.contract.power import PowerState
from compute_agent.virt.errors import RetryableHostError, UnsupportedError
from compute_agent.virt.machine.certificates import HostCertificates
from compute_agent.virt.machine.volume_connections import ConnectionRefusedByHostError
from provisioning.hosts.authority import Authority, new_authority
from tests.host.cast import EGRESS, OURS, PING, SSH, Wish
from tests.host.host_process import HostProcess
from tests.host.lab import PATIENCE, Lab, until
from tests.host.storage_daemon import GIB, StorageDaemon
from tests.host.test_guest import console
from tests.host.woken import wake
from tests.support.guest_image import GuestImage
from tests.support.small_disk import fill, small_disk

pytestmark = pytest.mark.deep
WRITER = """
cat >/run/writer <<'END'
i=0
while [ ! -e /run/stop ]; do
  printf '%4096d' $i | dd of=/dev/$1 bs=4096 seek=$i conv=notrunc,fsync 2>/dev/null || exec touch /run/failed
  i=$((i+1)); echo $i >/run/written; usleep 50000
done
echo done >/run/stopped
END
rm -f /run/stop /run/stopped /run/failed; echo 0 >/run/written
"""
"""Writes its blocks one after the other, each with its number, waits until each is on the disk, and rests a moment."""


@dataclass
class Stage:
    lab: Lab
    host: HostProcess
    web: InstanceSpec
    key: Path
    make: Callable[..., StorageDaemon]

    def ssh(self, command: str, *, check: bool = True) -> str:
        return self.lab.ssh(self.key, self.web, command, check=check)

    def with_volumes(self, *disks: GuestDisk) -> InstanceSpec:
        return replace(self.web, volumes=list(disks))

    def attach(self, disk: GuestDisk) -> None:
        self.host.driver.attach_volume(self.with_volumes(disk), disk)
        until(lambda: disk.device in self.ssh("ls /sys/block"), "the disk in the guest")

    def detach(self, disk: GuestDisk) -> None:
        self.host.driver.detach_volume(self.web, disk)

    def size(self, device: str = "vdb") -> int:
        return int(self.ssh(f"cat /sys/block/{device}/size")) * 512

    def begin_to_write(self, device: str = "vdb") -> None:
        self.ssh(WRITER + f"setsid sh /run/writer {device} >/dev/null 2>&1 </dev/null &")
        self.writes_on()

    def written(self) -> int:
        return int(self.ssh("cat /run/written").strip() or 0)

    def writes_on(self) -> None:
        before = self.written()
        until(lambda: self.written() > before + 5, "blocks that the guest writes")

    def end_writing(self) -> int:
        """Return how many blocks the guest knows to be on its disk."""
        self.ssh("touch /run/stop")
        until(lambda: "done" in self.ssh("cat /run/stopped 2>/dev/null", check=False), "the writer's end")
        assert "failed" not in self.ssh("ls /run")
        return self.written()

    def power(self) -> PowerState:
        return PowerState(self.host.driver.power_state(self.web.uuid))

    def defined(self) -> ET.Element:
        (path,) = self.lab.settings.state_dir.rglob(f"etc/qemu/novella-{self.web.uuid}.xml")
        return ET.parse(path).getroot()  # noqa: S314

    def restart_agent(self) -> None:
        """The agent dies, and the next one finds its guests."""
        self.host.kill()
        self.host.start()
        self.host.network.init_host()
        self.host.driver.init_host()


def check_blocks(daemon: StorageDaemon, blocks: int) -> None:
    """Compare what the guest has written with what the volume has."""
    daemon.stop()
    assert blocks > 5
    content = daemon.content()
    wrong = [number for number in range(blocks) if content[number * 4096 :][:4096] != b"%4096d" % number]
    assert wrong == []


@pytest.fixture(scope="module")
def stage(lab: Lab, image: GuestImage, key: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    host = HostProcess(lab.settings, lab.machine.path, image.path)
    host.network.init_host()
    host.driver.init_host()
    daemons: list[StorageDaemon] = []

    def make(**given: object) -> StorageDaemon:
        daemons.append(StorageDaemon(lab, tmp_path_factory.mktemp("pool"), **given))  # type: ignore[arg-type]
        return daemons[-1]

    public = key.with_suffix(".pub").read_text()
    web = Wish(1, rules=(EGRESS, SSH, PING), groups=(OURS,), image=image.ref, public_key=public).spec()
    wake(host, web)
    yield Stage(lab, host, web, key, make)
    host.kill()
    for daemon in daemons:
        daemon.stop()


@pytest.fixture
def volume(stage: Stage) -> Iterator[StorageDaemon]:
    daemon = stage.make()
    yield daemon
    driver, disk = stage.host.driver, daemon.disk()
    if stage.power() == PowerState.RUNNING:
        stage.ssh("touch /run/stop", check=False)
    driver.detach_volume(stage.web, disk, force=True)
    assert driver.volumes()[stage.web.uuid] == []
    daemon.stop()


def test_a_volume_comes_and_goes_while_the_guest_runs(stage: Stage, volume: StorageDaemon) -> None:
    driver, disk = stage.host.driver, volume.disk(iotune={"total_iops_sec": 500})
    for _ in range(2):
        stage.attach(disk)
    assert driver.volumes() == {stage.web.uuid: [volume.id]}
    assert (stage.size(), stage.ssh("cat /sys/block/vdb/serial").strip()) == (GIB, volume.id[:20])
    stage.begin_to_write()
    blocks = stage.end_writing()
    (counters,) = [each for each in driver.diagnostics(stage.web.uuid).disks if each.volume_id == volume.id]
    assert (counters.target, counters.write_bytes >= blocks * 4096) == ("vdb", True)
    for _ in range(2):
        stage.detach(disk)
    until(lambda: "vdb" not in stage.ssh("ls /sys/block"), "the end of the disk")
    assert driver.volumes() == {stage.web.uuid: []}
    assert [target.get("dev") for target in stage.defined().iterfind("./devices/disk/target")] == ["vda", "hda"]
    check_blocks(volume, blocks)


def test_a_volume_on_scsi_comes_and_goes_while_the_guest_runs(stage: Stage) -> None:
    """The first one brings the controller, which stays for the next one."""
    driver, daemons = stage.host.driver, [stage.make(), stage.make()]
    disks = [daemon.disk(name, bus="scsi") for daemon, name in zip(daemons, ("sda", "sdb"), strict=True)]
    for number, disk in enumerate(disks, 1):
        driver.attach_volume(stage.with_volumes(*disks[:number]), disk)
    for name in ("sda", "sdb"):
        until(lambda name=name: name in stage.ssh("ls /sys/block"), "the disk in the guest")
        assert stage.size(name) == GIB
    assert driver.volumes() == {stage.web.uuid: sorted(disk.id for disk in disks)}
    (model,) = stage.defined().iterfind("./devices/controller[@type='scsi']")
    assert model.get("model") == "virtio-scsi"
    stage.begin_to_write("sdb")
    blocks = stage.end_writing()
    for number, disk in enumerate(disks, 1):
        driver.detach_volume(stage.with_volumes(*disks[number:]), disk)
        until(lambda name=disk.device: name not in stage.ssh("ls /sys/block"), "the end of the disk")
    assert driver.volumes() == {stage.web.uuid: []}
    check_blocks(daemons[1], blocks)
    daemons[0].stop()


def test_a_grown_volume_grows_in_the_guest_without_a_pause(stage: Stage, volume: StorageDaemon) -> None:
    driver = stage.host.driver
    stage.attach(volume.disk())
    stage.begin_to_write()
    heard: list[PowerState] = []
    stage.host.listener = lambda uuid, state: heard.append(state)
    for number, size in ((2, 2), (3, 3)):
        volume.grow(size)
        volume.export(f"e{number}")
        grown = volume.disk()
        for _ in range(2):
            driver.refresh_volume(stage.with_volumes(grown), grown)
        volume.end_export(f"e{number - 1}")
        assert stage.size() == size * GIB
        stage.writes_on()
    assert heard == []
    stage.host.listener = None
    blocks = stage.end_writing()
    assert volume.name_of("e3") in ET.tostring(stage.defined(), encoding="unicode")
    # What libvirt has under its own names goes on to work: the guest is saved, and given back what it has now.
    driver.suspend(stage.web.uuid)
    driver.resume(stage.web.uuid)
    assert driver.wait_for_boot(stage.web.uuid, PATIENCE) == PowerState.RUNNING
    until(lambda: stage.size() == 3 * GIB, "the guest that was saved")
    stage.detach(volume.disk())
    check_blocks(volume, blocks)


def test_a_volume_of_another_host_is_reached_with_the_host_s_certificate(stage: Stage) -> None:
    driver, own = stage.host.driver, str(uuid.uuid4())
    certificates, now, life = HostCertificates(stage.lab.settings.state_dir), timezone.now(), timedelta(days=1)
    ca, ca_key, _ = new_authority(now)
    authority = Authority(ca, ca_key)
    request = certificates.request()
    server = authority.sign(request.server, own, server_name=tls_hostname(own), now=now, life=life)
    client = authority.sign(request.client, own, now=now, life=life)
    certificates.store(Certificate(host_id=own, server=server, client=client, ca=ca))
    volume = stage.make(tls_hostname=certificates.tls_hostname)
    plain = replace(volume.disk(), connection=replace(volume.connection(), tls=False, tls_hostname=""))
    with pytest.raises(ConnectionRefusedByHostError):
        driver.attach_volume(stage.with_volumes(plain), plain)
    driver.detach_volume(stage.web, plain, force=True)
    stage.attach(volume.disk())
    stage.begin_to_write()
    volume.grow(2)
    volume.export("e2")
    for _ in range(2):
        driver.refresh_volume(stage.with_volumes(volume.disk()), volume.disk())
    volume.end_export("e1")
    assert stage.size() == 2 * GIB
    stage.writes_on()
    blocks = stage.end_writing()
    stage.detach(volume.disk())
    assert driver.volumes()[stage.web.uuid] == []
    check_blocks(volume, blocks)


@pytest.mark.parametrize("after", ["blockdev-add", "blockdev-reopen"])
def test_a_move_that_was_cut_off_is_done_by_the_next_agent(stage: Stage, volume: StorageDaemon, after: str) -> None:
    driver, monitor, uuid = stage.host.driver, stage.host.monitor, stage.web.uuid
    stage.attach(volume.disk())
    stage.begin_to_write()
    volume.grow(2)
    new = volume.export("e2")
    upper, lower, *_ = sorted(
        node["node-name"]
        for node in monitor.ask(uuid, "query-named-block-nodes", flat=True)
        if volume.name_of("e1") in node["file"] and "exports" in node["file"]
    )
    index = upper.split("-")[1]
    server = {"type": "unix", "path": monitor.visible(Path(new.socket))}
    cache = {"direct": True, "no-flush": False}
    monitor.ask(uuid, "blockdev-add", driver="nbd", node_name=f"novella-{index}", server=server, export=new.export,
                cache=cache, discard="unmap")  # fmt: skip
    if after == "blockdev-reopen":
        options = {"driver": "raw", "node-name": upper, "file": f"novella-{index}", "read-only": False,
                   "discard": "unmap", "cache": cache}  # fmt: skip
        monitor.ask(uuid, "blockdev-reopen", options=[options])
        monitor.ask(uuid, "blockdev-del", node_name=lower)
    stage.restart_agent()
    grown = volume.disk()
    driver.refresh_volume(stage.with_volumes(grown), grown)
    volume.end_export("e1")
    assert stage.size() == 2 * GIB
    stage.writes_on()
    blocks = stage.end_writing()
    nodes = {node["node-name"] for node in monitor.ask(uuid, "query-named-block-nodes", flat=True)}
    assert ({upper, lower} <= nodes, f"novella-{index}" in nodes) == (True, False)
    stage.detach(volume.disk())
    check_blocks(volume, blocks)


def test_limits_change_while_the_guest_runs(stage: Stage, volume: StorageDaemon) -> None:
    driver, monitor, uuid = stage.host.driver, stage.host.monitor, stage.web.uuid

    def limits() -> tuple[int, int]:
        (inserted,) = [each["inserted"] for each in monitor.ask(uuid, "query-block")
                   if "exports" in each.get("inserted", {}).get("file", "")]  # fmt: skip
        return inserted["iops"], inserted["bps_wr"]

    stage.attach(volume.disk(iotune={"total_iops_sec": 300}))
    assert limits() == (300, 0)
    for iotune, seen in (({"write_bytes_sec": 1 << 20}, (0, 1 << 20)), ({}, (0, 0))):
        disk = volume.disk(iotune=iotune)
        driver.refresh_volume(stage.with_volumes(disk), disk)
        assert limits() == seen
        element = stage.defined().find("./devices/disk[@type='network']/iotune")
        assert {each.tag for each in element} == set(iotune) if element is not None else not iotune


def test_a_dead_storage_daemon_pauses_the_guest_and_no_write_is_lost(stage: Stage, volume: StorageDaemon) -> None:
    driver, uuid = stage.host.driver, stage.web.uuid
    stage.attach(volume.disk())
    stage.begin_to_write()
    for _ in range(2):
        volume.kill()
        until(lambda: stage.power() == PowerState.PAUSED, "the guest that waits for its volume")
        assert not driver.resume_after_error(uuid)
        with pytest.raises(UnsupportedError):
            driver.pause(uuid)
        volume.start()
        assert driver.resume_after_error(uuid)
        assert not driver.resume_after_error(uuid)
        assert stage.power() == PowerState.RUNNING
        stage.writes_on()
    blocks = stage.end_writing()
    stage.detach(volume.disk())
    check_blocks(volume, blocks)


def test_a_guest_that_was_idle_while_its_daemon_died_follows_what_happens_to_its_volume(
    stage: Stage, volume: StorageDaemon
) -> None:
    """QEMU notices that a connection is over, and opens another, only when it is used."""
    driver, other, size = stage.host.driver, stage.make(size_gb=3), 1
    stage.attach(volume.disk())
    stage.ssh("printf '%4096d' 0 | dd of=/dev/vdb conv=fsync 2>/dev/null")
    for size in (2, 3):
        volume.grow(size)
        volume.kill()
        volume.start()
        volume.export(f"e{size}")
        driver.refresh_volume(stage.with_volumes(volume.disk()), volume.disk())
        assert stage.size() == size * GIB
    volume.kill()
    volume.start()
    driver.swap_volume(stage.with_volumes(other.disk()), volume.disk(), other.disk())
    volume.stop()
    assert stage.power() == PowerState.RUNNING
    stage.begin_to_write()
    blocks = stage.end_writing()
    stage.detach(other.disk())
    check_blocks(other, blocks)


def test_a_full_pool_pauses_the_guest_until_there_is_room(stage: Stage, tmp_path: Path) -> None:
    driver, uuid = stage.host.driver, stage.web.uuid
    with small_disk(tmp_path / "pool", "40M") as folder:
        volume = StorageDaemon(stage.lab, folder)
        stage.attach(volume.disk())
        stage.begin_to_write()
        filler = fill(folder)
        until(lambda: stage.power() == PowerState.PAUSED, "the guest that waits for room")
        assert not driver.resume_after_error(uuid)
        assert stage.power() == PowerState.PAUSED
        filler.unlink()
        assert driver.resume_after_error(uuid)
        stage.writes_on()
        blocks = stage.end_writing()
        stage.detach(volume.disk())
        check_blocks(volume, blocks)


def test_a_volume_is_swapped_under_a_guest_that_writes(stage: Stage, volume: StorageDaemon) -> None:
    driver, uuid = stage.host.driver, stage.web.uuid
    old, other, small = volume.disk(), stage.make(), stage.make(size_gb=2)
    stage.attach(old)
    stage.begin_to_write()
    with pytest.raises(RetryableHostError):  # libvirt begins, and only the end of the copy says that it failed
        driver.swap_volume(stage.with_volumes(small.disk()), old, small.disk())
    assert driver.volumes()[uuid] == [volume.id]
    stage.writes_on()
    for _ in range(2):
        driver.swap_volume(stage.with_volumes(other.disk()), old, other.disk())
    assert driver.volumes()[uuid] == [other.id]
    assert driver.attachments()[uuid] == {other.id: other.disk().attachment_id}
    volume.stop()  # nobody needs it any more
    stage.writes_on()
    other.grow(2)
    other.export("e2")
    driver.refresh_volume(stage.with_volumes(other.disk()), other.disk())
    assert stage.size() == 2 * GIB
    stage.restart_agent()
    assert driver.volumes()[uuid] == [other.id]
    blocks = stage.end_writing()
    stage.detach(other.disk())
    assert driver.volumes()[uuid] == []
    check_blocks(other, blocks)
    small.stop()


def test_the_data_of_a_volume_moves_under_a_guest_that_writes(stage: Stage, volume: StorageDaemon) -> None:
    driver, other = stage.host.driver, stage.make()
    stage.attach(volume.disk())
    stage.begin_to_write()
    moved = replace(other.disk(), id=volume.id, serial=volume.id)  # the same volume, by another attachment
    for _ in range(2):
        driver.swap_volume(stage.with_volumes(moved), volume.disk(), moved)
    volume.stop()
    stage.writes_on()
    assert driver.volumes()[stage.web.uuid] == [volume.id]
    stage.detach(volume.disk())  # what is gone already
    assert driver.volumes()[stage.web.uuid] == [volume.id]
    blocks = stage.end_writing()
    stage.detach(moved)
    assert driver.volumes()[stage.web.uuid] == []
    check_blocks(other, blocks)


def test_a_guest_that_does_not_let_go_is_reported_and_then_forced(stage: Stage, volume: StorageDaemon) -> None:
    driver, uuid = stage.host.driver, stage.web.uuid
    stage.attach(volume.disk())
    driver.pause(uuid)
    with pytest.raises(UnsupportedError):
        driver.detach_volume(stage.web, volume.disk())
    assert driver.volumes()[uuid] == [volume.id]
    for _ in range(2):
        driver.detach_volume(stage.web, volume.disk(), force=True)
    assert driver.volumes()[uuid] == []
    volume.stop()
    driver.unpause(uuid)
    assert stage.power() == PowerState.RUNNING
    assert "refused" in stage.ssh("dd if=/dev/zero of=/dev/vdb bs=4096 count=1 conv=fsync 2>/dev/null || echo refused")
    assert stage.power() == PowerState.RUNNING
    other = stage.make()  # another one comes, and the guest is the same
    for disk in (other.disk(), other.disk("sda", bus="scsi")):
        driver.attach_volume(stage.with_volumes(disk), disk)
        assert driver.volumes()[uuid] == [other.id]
        driver.detach_volume(stage.web, disk)
        assert driver.volumes()[uuid] == []


def test_a_volume_whose_daemon_is_dead_is_taken_by_force(stage: Stage, volume: StorageDaemon) -> None:
    driver, uuid = stage.host.driver, stage.web.uuid
    name = {disk.strip() for disk in stage.ssh("ls /sys/block").split()}
    driver.attach_volume(stage.with_volumes(volume.disk()), volume.disk())
    (device,) = until(lambda: {disk.strip() for disk in stage.ssh("ls /sys/block").split()} - name, "the disk")
    stage.begin_to_write(device)
    volume.kill()
    until(lambda: stage.power() == PowerState.PAUSED, "the guest that waits for its volume")
    driver.detach_volume(stage.web, volume.disk(), force=True)
    assert stage.power() == PowerState.RUNNING
    assert driver.volumes()[uuid] == []
    until(lambda: "failed" in stage.ssh("ls /run"), "the error that the guest sees")
    before = console(stage.host, stage.web).count("login:")
    stage.lab.hang_up()
    driver.reboot(uuid, hard=True, timeout=0)
    until(lambda: console(stage.host, stage.web).count("login:") > before, "another login prompt")


def test_a_stopped_guest_has_its_volumes_when_it_starts(stage: Stage, volume: StorageDaemon) -> None:
    driver, uuid = stage.host.driver, stage.web.uuid
    driver.stop(uuid, 20.0)
    scsi, ide = stage.make(), stage.make()
    disks = [volume.disk(), scsi.disk("sda", bus="scsi", read_only=True), ide.disk("hdb", bus="ide")]
    spec = stage.with_volumes(*disks)
    for disk in disks:
        driver.attach_volume(spec, disk)
    volume.grow(2)
    volume.export("e2")
    driver.refresh_volume(spec, volume.disk())
    before = console(stage.host, stage.web).count("login:")
    stage.lab.hang_up()
    driver.start(uuid)
    until(lambda: console(stage.host, stage.web).count("login:") > before, "another login prompt")
    assert stage.size() == 2 * GIB
    assert driver.volumes()[uuid] == sorted(disk.id for disk in disks)
    with pytest.raises(UnsupportedError):
        driver.detach_volume(stage.web, disks[2])
    driver.stop(uuid, 20.0)
    for disk in disks:
        driver.detach_volume(stage.web, disk)
    stage.lab.hang_up()
    driver.start(uuid)
    scsi.stop()
    ide.stop()


def test_a_guest_boots_from_a_volume_and_leaves_it_behind(stage: Stage, image: GuestImage) -> None:
    host, driver = stage.host, stage.host.driver
    volume = stage.make(source=image.path)
    root = volume.disk("vda", boot_index=0)
    local = [LocalDisk(size_mb=64, format="ext4", device="vdb"), LocalDisk(size_mb=16, swap=True, device="vdc")]
    public = stage.key.with_suffix(".pub").read_text()
    spec = Wish(2, rules=(EGRESS, SSH, PING), groups=(OURS,), public_key=public).spec()
    spec = replace(spec, image=replace(spec.image, id=""), volumes=[root], local_disks=local)
    for _ in range(2):  # made, destroyed, and made again from the same volume
        host.tell(spec)
        host.network.plug(spec)
        driver.create_disk(spec, None)
        driver.create_seed(spec)
        driver.define(spec, 1)
        host.network.apply_firewall(spec)
        stage.lab.hang_up()
        driver.start(spec.uuid)
        until(lambda: "login:" in console(host, spec), "the guest's login prompt")
        folder = stage.lab.settings.state_dir / "instances" / spec.uuid
        assert not (folder / "disk.qcow2").exists()
        output = stage.lab.ssh(
            stage.key,
            spec,
            "cat /sys/block/vda/serial; echo; cat /sys/block/vdb/size /sys/block/vdc/size; "
            "cat /root/kept 2>/dev/null; echo kept >/root/kept; sync",
        )
        assert output.splitlines()[:3] == [volume.id[:20], str(64 << 11), str(16 << 11)]
        assert (folder / "local-0.raw").read_bytes()[1144:][:10] == b"ephemeral0"  # the labels of ext4 and of swap
        assert (folder / "local-1.raw").read_bytes()[1052:][:5] == b"swap0"
        driver.destroy(spec.uuid)
        assert not folder.exists()
    assert output.splitlines()[-1] == "kept"
    volume.stop()
