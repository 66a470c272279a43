"""Remains of disk copies that were interrupted by the death of the agent, in libvirt's status files and in QEMU.

libvirt records the start of a copy (its "backup" job) before it records the disk. If the agent dies in between, the
next agent finds a job without disks that never ends and blocks all requests to that guest. ``forget`` removes the job
from the status file.

QEMU does not read these files, and continues the copy. A job that libvirt does not know, or its block nodes, would
cause every later copy to fail, because libvirt uses the same node names again. ``end`` removes the job and its nodes.
"""

import logging
import re
import time
from pathlib import Path
from typing import Any

from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.libvirt import monitor

log = logging.getLogger(__name__)

END_SECONDS = 20.0
"""Seconds in which QEMU has to end a cancelled job."""
LOOK = 0.02

_JOB = re.compile(rb"<job [^>]*\basync='backup'[^>]*?(/>|>.*?</job>)", re.DOTALL)
_DATA = b"<domainbackup"


def forget(root: Path) -> list[str]:
    """Remove jobs without disks from libvirt's status files under ``root``; return the domains' names.

    Must be called before libvirt opens the root.
    """
    forgotten = []
    for note in sorted((root / "run" / "qemu").glob("*.xml")):
        text = note.read_bytes()
        if _DATA in text or _JOB.search(text) is None:
            continue
        fresh = note.with_suffix(".repaired")
        fresh.write_bytes(_JOB.sub(b"<job type='none' async='none'/>", text))
        fresh.chmod(0o600)
        fresh.replace(note)
        log.warning("A copy of the disk of %s was interrupted.", note.stem)
        forgotten.append(note.stem)
    return forgotten


def end(domain: Any) -> list[str]:
    """End the backup jobs of a running guest in QEMU, and remove their block nodes. Return the names of jobs and nodes.

    Call it only for a guest without a job in libvirt, while no job can start: the jobs found are orphans. Raises
    RetryableHostError if a job does not end within ``END_SECONDS``, and libvirtError.
    """
    jobs = [job for job in monitor.ask(domain, "query-jobs") if job["type"] == "backup"]
    for job in jobs:
        _end_job(domain, job["id"])
    nodes = monitor.unused_nodes(domain)
    for node in nodes:
        monitor.execute(domain, "blockdev-del", {"node-name": node})  # fails if libvirt was faster
    if nodes and (left := monitor.unused_nodes(domain)):
        raise RetryableHostError("An interrupted copy could not be ended.", detail=f"{left} cannot be removed")
    ended = [job["id"] for job in jobs] + nodes
    if ended:
        log.warning("Removed remains in %s of an interrupted copy: %s.", domain.name(), ", ".join(ended))
    return ended


def _end_job(domain: Any, name: str) -> None:
    """Cancel a job, wait for its end, and dismiss it."""
    deadline = time.monotonic() + END_SECONDS
    monitor.execute(domain, "job-cancel", {"id": name})  # fails if it has already ended
    while (status := {job["id"]: job["status"] for job in monitor.ask(domain, "query-jobs")}.get(name)) is not None:
        if status == "concluded":
            monitor.execute(domain, "job-dismiss", {"id": name})
        elif time.monotonic() > deadline:
            raise RetryableHostError("An interrupted copy could not be ended.", detail=f"{name} is {status}")
        else:
            time.sleep(LOOK)
