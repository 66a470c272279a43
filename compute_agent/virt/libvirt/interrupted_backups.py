"""Copies of disks whose agent died over them: what the embedded libvirt wrote of one would keep it from the guest.

libvirt notes that a copy (its "backup" job) has begun before it notes of which disk.  When the agent dies in between,
the next one finds a job of nothing, which never ends: every other request to that guest waits for it.  Without the note
of the job libvirt knows the guest as it is; what QEMU itself still copies is found by ``snapshots`` and ended.
"""

import logging
import re
from pathlib import Path

log = logging.getLogger(__name__)

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
