"""Copies a volume of a running guest to another volume, and switches the guest to that volume."""

import logging
import time
import xml.etree.ElementTree as ET
from typing import Any

import libvirt

from compute_agent.contract.build import GuestDisk
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import RetryableHostError, StoppedError
from compute_agent.virt.libvirt import disk_xml
from compute_agent.virt.libvirt.volume_table import RUNS, names_in, place_of, target_of, tree_of
from compute_agent.virt.processes import progress

log = logging.getLogger(__name__)

LOOK_FIRST, LOOK_LAST = 0.02, 0.5
"""Seconds until the first progress check of a copy, and between later checks."""
_NOT_COPIED = "The volume could not be copied."


def copy(domain: Any, target: str, new: GuestDisk, stopped: Stopped) -> None:
    """Copy the disk ``target`` to ``new``, and switch the guest to ``new``.

    A copy to ``new`` that an earlier agent started is continued; a copy to another volume is aborted. Raises
    StoppedError, RetryableHostError, libvirtError; the copy is aborted then.
    """
    try:
        _begin(domain, target, new)
        _wait(domain, target, stopped)
        domain.blockJobAbort(target, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
    except BaseException:
        end(domain, target)
        raise


def is_on(disk: ET.Element, new: GuestDisk) -> bool:
    """Return whether ``new`` is the source of a running guest's disk, according to libvirt."""
    source = disk.find("source")
    return source is not None and place_of(source) == place_of(disk_xml.source_element(new.connection))


def _begin(domain: Any, target: str, new: GuestDisk) -> None:
    mirror = _mirror(domain, target)
    if mirror is not None and place_of(mirror) == place_of(disk_xml.source_element(new.connection)):
        return
    if mirror is not None or domain.blockJobInfo(target):
        end(domain, target)
    element = disk_xml.volume_element(new, target)
    for child in list(element):
        if child.tag not in {"driver", "source"}:
            element.remove(child)
    flags = libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT | libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB
    domain.blockCopy(target, ET.tostring(element, encoding="unicode"), {}, flags)


def _wait(domain: Any, target: str, stopped: Stopped) -> None:
    """Wait until both volumes have the same data. libvirt does not report an error of the copy: the job only
    disappears.
    """
    pause, watched = LOOK_FIRST, progress.Watched()
    while True:
        job = domain.blockJobInfo(target)
        if not job:
            raise RetryableHostError(_NOT_COPIED, detail=f"the copy of {target} ended by itself")
        watched.look(job.get("cur"), job.get("end") or 0)
        mirror = _mirror_element(domain, target)
        if mirror is not None and mirror.get("ready") == "yes":
            return
        if stopped():
            raise StoppedError("The copy of the volume was stopped.")
        time.sleep(pause)
        pause = min(2 * pause, LOOK_LAST)


def end(domain: Any, target: str) -> None:
    """Abort a copy; the guest keeps its volume."""
    try:
        if domain.isActive() and target in names_in(tree_of(domain, RUNS)) and domain.blockJobInfo(target):
            domain.blockJobAbort(target, 0)
    except libvirt.libvirtError as error:
        log.warning("The copy of a volume could not be ended: %s", error)


def _mirror_element(domain: Any, target: str) -> ET.Element | None:
    for disk in tree_of(domain, RUNS).iterfind("./devices/disk"):
        if target_of(disk) == target:
            return disk.find("mirror")
    return None


def _mirror(domain: Any, target: str) -> ET.Element | None:
    mirror = _mirror_element(domain, target)
    return mirror.find("source") if mirror is not None else None
