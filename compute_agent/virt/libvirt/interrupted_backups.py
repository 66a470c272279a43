"""Copies of disks whose agent died over them: what is left of one in libvirt's notes, and in QEMU itself.

libvirt notes that a copy (its "backup" job) has begun before it notes of which disk.  When the agent dies in between,
the next one finds a job of nothing, which never ends: every other request to that guest waits for it.  ``forget`` takes
the job out of the note.

QEMU knows nothing of notes: it goes on with what it was told.  A job that libvirt does not know, or the block nodes
that were added for it, would fail every later copy: libvirt uses the names of the nodes again.  ``end`` removes both.
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
"""Within which QEMU has to end a job that it was told to cancel."""
LOOK = 0.02

_JOB = re.compile(rb"<job [^>]*\basync='backup'[^>]*?(/>|>.*?</job>)", re.DOTALL)
_DATA = b"<domainbackup"


def forget(root: Path) -> list[str]:
    """Take the jobs of nothing out of libvirt's notes under ``root``; return the domains' names.

    Call it before libvirt opens the root.
    """
    forgotten = []
    for note in sorted((root / "run" / "qemu").glob("*.xml")):
        text = note.read_bytes()
        if _DATA in text or _JOB.search(text) is None:
            continue
        fresh = note.with_suffix(".mended")
        fresh.write_bytes(_JOB.sub(b"<job type='none' async='none'/>", text))
        fresh.chmod(0o600)
        fresh.replace(note)
        log.warning("A copy of the disk of %s was cut off.", note.stem)
        forgotten.append(note.stem)
    return forgotten


def end(domain: Any) -> list[str]:
    """End the backup jobs that QEMU has for a running guest, and remove their block nodes; return the names of both.

    Only for a guest of which libvirt knows no job, and while none can begin: what is found then belongs to nobody.
    Raises RetryableHostError when a job does not end within ``END_SECONDS``, and libvirtError.
    """
    jobs = [job for job in monitor.ask(domain, "query-jobs") if job["type"] == "backup"]
    for job in jobs:
        _end_job(domain, job["id"])
    nodes = monitor.nodes_of_nobody(domain)
    for node in nodes:
        monitor.tell(domain, "blockdev-del", {"node-name": node})  # an error where libvirt was faster
    if nodes and (left := monitor.nodes_of_nobody(domain)):
        raise RetryableHostError("A copy that was cut off could not be ended.", detail=f"{left} cannot be removed")
    ended = [job["id"] for job in jobs] + nodes
    if ended:
        log.warning("What was left in %s of a copy that was cut off is removed: %s.", domain.name(), ", ".join(ended))
    return ended


def _end_job(domain: Any, name: str) -> None:
    """Cancel a job, wait for its end, and dismiss it."""
    deadline = time.monotonic() + END_SECONDS
    monitor.tell(domain, "job-cancel", {"id": name})  # an error where it has ended by itself
    while (status := {job["id"]: job["status"] for job in monitor.ask(domain, "query-jobs")}.get(name)) is not None:
        if status == "concluded":
            monitor.tell(domain, "job-dismiss", {"id": name})
        elif time.monotonic() > deadline:
            raise RetryableHostError("A copy that was cut off could not be ended.", detail=f"{name} is {status}")
        else:
            time.sleep(LOOK)
