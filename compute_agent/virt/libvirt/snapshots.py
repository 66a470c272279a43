"""Complete copies of a guest's root disk: by QEMU while the guest runs, otherwise by qemu-img."""

import json
import logging
import os
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import libvirt

from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.errors import RetryableHostError, StoppedError, UnsupportedError
from compute_agent.virt.libvirt import interrupted_backups
from compute_agent.virt.libvirt.account import ROOT, Account
from compute_agent.virt.libvirt.connection import translated
from compute_agent.virt.libvirt.disks import LEAST_FREE
from compute_agent.virt.libvirt.domains import Domains
from compute_agent.virt.processes import progress
from compute_agent.virt.processes.programs import Limits, ProgramError, run_long, run_program
from compute_agent.virt.processes.rights import Rights

log = logging.getLogger(__name__)

COPY = Limits(seconds=24 * 3600, cpu_seconds=4 * 3600, memory=2 << 30)
LOOK_FIRST, LOOK_LAST = 0.02, 0.5
"""Seconds until the first progress check of a copy, and between later checks."""
AGENT_SECONDS = 5
"""Seconds in which the guest agent has to freeze the file systems."""
THAWS = 5
ALONE = nullcontext()
"""The argument ``begin`` of ``copy_disk`` for callers without concurrent copies."""
_NOT_FROZEN = "The guest's image requires frozen file systems (os_require_quiesce), but"
_NOT_COPIED = "The guest's disk could not be copied."
_BROKEN_OFF = "The copy of the disk was stopped."


def copy_disk(
    domain: Any,
    disk: Path,
    target: Path,
    disk_format: str,
    stopped: Stopped,
    *,
    account: Account = ROOT,
    begin: AbstractContextManager[object] = ALONE,
    needs_quiesce: bool = False,
) -> None:
    """Write ``disk``, with its backing files, to ``target``; see ``ComputeDriver.snapshot``.

    ``account`` is the account of QEMU. QEMU's job is started within the context manager ``begin``, which prevents other
    copies. The copy of a running guest is consistent: if the guest has an agent, file systems are frozen when the copy
    starts. If the guest stops in the meantime, its final state is copied.
    """
    try:
        _check_room(disk, target, disk_format)
        with translated("copy the guest's disk"):
            if domain.isActive():
                with begin:
                    _begin(domain, disk, target, disk_format, account, needs_quiesce=needs_quiesce)
                if _done(domain, target, stopped):
                    return
        _by_program(disk, target, disk_format, stopped)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _check_room(disk: Path, target: Path, disk_format: str) -> None:
    try:
        words = ("qemu-img", "measure", "-U", "--output=json", "-f", "qcow2", "-O", disk_format, str(disk))
        measured = json.loads(run_program(*words, rights=Rights()))
    except ProgramError as error:
        raise RetryableHostError(_NOT_COPIED, detail=str(error)) from error
    room = os.statvfs(target.parent)
    if measured["required"] + LEAST_FREE > room.f_bavail * room.f_frsize:
        raise RetryableHostError(
            "The host has no space for a copy of the disk.", detail=f"{measured['required']} bytes"
        )


def _begin(domain: Any, disk: Path, target: Path, disk_format: str, account: Account, *, needs_quiesce: bool) -> None:
    """Start QEMU's copy while the guest runs."""
    _end_job(domain)
    end_left_copy(domain)
    tree = ET.fromstring(domain.XMLDesc())  # noqa: S314 - libvirt's own output
    _make(disk, target, disk_format, account)
    with _frozen(domain, tree, required=needs_quiesce):
        description = _backup_xml(_device(tree, disk), target, disk_format)
        domain.backupBegin(description, None, libvirt.VIR_DOMAIN_BACKUP_BEGIN_REUSE_EXTERNAL)


def _done(domain: Any, target: Path, stopped: Stopped) -> bool:
    """Wait until QEMU has finished the copy. Return False if the guest stopped before.

    Raises StoppedError if ``stopped`` returns True, even if the copy was faster.
    """
    pause, watched = LOOK_FIRST, progress.Watched()
    while True:
        if stopped():
            _end_job(domain)
            raise StoppedError(_BROKEN_OFF)
        if not _is_running(domain):
            break
        watched.look(progress.size_on_disk(target))
        time.sleep(pause)
        pause = min(2 * pause, LOOK_LAST)
    if not domain.isActive():
        return False
    stats = domain.jobStats(libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED | libvirt.VIR_DOMAIN_JOB_STATS_KEEP_COMPLETED)
    if stats.get("type") != libvirt.VIR_DOMAIN_JOB_COMPLETED or not stats.get("success", True):
        raise RetryableHostError(_NOT_COPIED, detail=str(stats))
    return True


def _make(disk: Path, target: Path, disk_format: str, account: Account) -> None:
    """Create an empty target file that QEMU may write. A file created by libvirt would be accessible only to root."""
    target.unlink(missing_ok=True)
    try:
        info = json.loads(
            run_program("qemu-img", "info", "-U", "-f", "qcow2", "--output=json", str(disk), rights=Rights())
        )
        target.touch(mode=0o600)
        run_program("qemu-img", "create", "-q", "-f", disk_format, str(target), str(info["virtual-size"]))
    except ProgramError as error:
        raise RetryableHostError(_NOT_COPIED, detail=str(error)) from error
    account.change_owner(target, 0o600)


def _backup_xml(device: str, target: Path, disk_format: str) -> str:
    """Return libvirt's "Backup XML": one disk, pushed to a file; other disks are omitted."""
    backup = ET.Element("domainbackup", mode="push")
    disk = ET.SubElement(ET.SubElement(backup, "disks"), "disk", name=device, backup="yes", type="file")
    ET.SubElement(disk, "driver", type=disk_format)
    ET.SubElement(disk, "target", file=str(target))
    return ET.tostring(backup, encoding="unicode")


def _device(tree: ET.Element, disk: Path) -> str:
    """Return the disk's name in the guest."""
    for element in tree.findall("./devices/disk"):
        source, device = element.find("source"), element.find("target")
        if source is not None and device is not None and source.attrib.get("file") == str(disk):
            return device.attrib["dev"]
    raise RetryableHostError(_NOT_COPIED, detail=f"the guest has no disk {disk}")


def _is_running(domain: Any) -> bool:
    try:
        return bool(domain.jobStats().get("type", 0) != libvirt.VIR_DOMAIN_JOB_NONE)
    except libvirt.libvirtError:
        if not domain.isActive():
            return False
        raise


def _end_job(domain: Any) -> None:
    """Abort the copies of this guest, including those that a killed agent started, and wait for their end."""
    if not _is_running(domain):
        return
    try:
        domain.abortJob()
    except libvirt.libvirtError as error:
        log.info("the copy could not be stopped: %s", error)
    while _is_running(domain):
        time.sleep(LOOK_FIRST)


def end_left_copy(domain: Any) -> None:
    """End a copy in QEMU that is unknown to libvirt. Call it only while no copy of this guest can start here."""
    if domain.isActive() and not _is_running(domain):
        interrupted_backups.end(domain)


@contextmanager
def _frozen(domain: Any, tree: ET.Element, *, required: bool = False) -> Iterator[None]:
    """Freeze the guest's file systems while the block runs, if it has a guest agent. The file systems are always
    thawed.

    Raises UnsupportedError if freezing is ``required`` and not possible.
    """
    if tree.find("./devices/channel/target[@name='org.qemu.guest_agent.0']") is None:
        if required:
            raise UnsupportedError(f"{_NOT_FROZEN} it has no guest agent (hw_qemu_guest_agent).")
        yield
        return
    try:
        domain.agentSetResponseTimeout(AGENT_SECONDS, 0)
        domain.fsFreeze()
    except libvirt.libvirtError as error:
        if required:
            _thaw(domain)
            raise UnsupportedError(f"{_NOT_FROZEN} its agent does not answer.", detail=str(error)) from error
        log.info("the guest's file systems are copied as they are: %s", error)
    try:
        yield
    finally:
        _thaw(domain)


def _thaw(domain: Any) -> None:
    """Thaw the file systems, even if they were frozen for a killed agent of the host, or by a guest agent that answered
    late.
    """
    for _ in range(THAWS):
        try:
            domain.fsThaw()
        except libvirt.libvirtError as error:
            if error.get_error_code() in {libvirt.VIR_ERR_AGENT_UNRESPONSIVE, libvirt.VIR_ERR_OPERATION_INVALID}:
                return  # no agent in the guest that could have frozen them
            log.warning("the guest's file systems could not be thawed: %s", error)
        else:
            return


def _by_program(disk: Path, target: Path, disk_format: str, stopped: Stopped) -> None:
    """Copy the disk of a stopped guest."""
    target.unlink(missing_ok=True)
    target.touch(mode=0o600)
    words = ("-q", "-f", "qcow2", "-O", disk_format, str(disk), str(target))
    try:
        run_long("qemu-img", "convert", *words, limits=COPY, stopped=stopped, rights=Rights())
    except ProgramError as error:
        if stopped():
            raise StoppedError(_BROKEN_OFF) from error
        raise RetryableHostError(_NOT_COPIED, detail=str(error)) from error


class SnapshotOperations(Domains):
    """Copying the disks of guests."""

    def snapshot(self, uuid: str, target: Path, disk_format: str, stopped: Stopped = never) -> None:
        domain = self._domain(uuid)
        disk, account = self._paths.instance(uuid).root_disk, self._paths.account
        begin, mark = self._no_copy_begins(uuid), self._mark(domain)
        copy_disk(domain, disk, self._paths.visible(target), disk_format, stopped, account=account, begin=begin,
                  needs_quiesce=mark is not None and mark.needs_quiesce)  # fmt: skip

    @contextmanager
    def frozen(self, uuid: str) -> Iterator[None]:
        domain = self._domain(uuid)
        with translated("freeze the guest's file systems"):
            runs = domain.isActive()
            tree = ET.fromstring(domain.XMLDesc())  # noqa: S314 - libvirt's own output
        mark = self._mark(domain)
        with _frozen(domain, tree, required=mark is not None and mark.needs_quiesce) if runs else nullcontext():
            yield
