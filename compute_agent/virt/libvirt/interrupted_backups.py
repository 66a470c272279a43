"""Copies of disks whose agent died over them: what is left of one in libvirt's notes, and in QEMU itself.

libvirt notes that a copy (its "backup" job) has begun before it notes of which disk.  When the agent dies in between,
the next one finds a job of nothing, which never ends: every other request to that guest waits for it.  ``forget`` takes
the job out of the note.

QEMU knows nothing of notes: it goes on with what it was told.  A job that libvirt does not know, or the block nodes
that were added for it, would fail every later copy: libvirt uses the names of the nodes again.  ``end`` removes both.
"""

import json
import logging
import re
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import libvirt_qemu

from compute_agent.virt.errors import RetryableHostError

log = logging.getLogger(__name__)

END_SECONDS = 20.0
"""Within which QEMU has to end a job that it was told to cancel."""
LOOK = 0.02

_JOB = re.compile(rb"<job [^>]*\basync='backup'[^>]*?(/>|>.*?</job>)", re.DOTALL)
_DATA = b"<domainbackup"
_NODE = re.compile(r"libvirt-(\d+)-[a-z-]+")
"""What libvirt calls the block nodes of a disk; the number is the ``index`` of its source in the domain's XML."""


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
    jobs = [job for job in _ask(domain, "query-jobs") if job["type"] == "backup"]
    for job in jobs:
        _end_job(domain, job["id"])
    nodes = _nodes_of_nobody(domain)
    for node in nodes:
        _tell(domain, "blockdev-del", {"node-name": node})  # an error where libvirt was faster
    if nodes and (left := _nodes_of_nobody(domain)):
        raise RetryableHostError("A copy that was cut off could not be ended.", detail=f"{left} cannot be removed")
    ended = [job["id"] for job in jobs] + nodes
    if ended:
        log.warning("What was left in %s of a copy that was cut off is removed: %s.", domain.name(), ", ".join(ended))
    return ended


def _end_job(domain: Any, name: str) -> None:
    """Cancel a job, wait for its end, and dismiss it."""
    deadline = time.monotonic() + END_SECONDS
    _tell(domain, "job-cancel", {"id": name})  # an error where it has ended by itself
    while (status := {job["id"]: job["status"] for job in _ask(domain, "query-jobs")}.get(name)) is not None:
        if status == "concluded":
            _tell(domain, "job-dismiss", {"id": name})
        elif time.monotonic() > deadline:
            raise RetryableHostError("A copy that was cut off could not be ended.", detail=f"{name} is {status}")
        else:
            time.sleep(LOOK)


def _nodes_of_nobody(domain: Any) -> list[str]:
    """List the nodes that no disk of the guest has, in the order in which they can be removed: users first."""
    tree = ET.fromstring(domain.XMLDesc())  # noqa: S314 - libvirt's own output
    used = {source.attrib["index"] for source in tree.iterfind("./devices/disk//*[@index]")}
    names = [node["node-name"] for node in _ask(domain, "query-named-block-nodes", {"flat": True})]
    left = [name for name in names if (found := _NODE.fullmatch(name)) is not None and found[1] not in used]
    return sorted(left, key=lambda name: name.endswith("-storage"))


def _ask(domain: Any, command: str, arguments: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    answer = _tell(domain, command, arguments)
    if "error" in answer:
        raise RetryableHostError("The hypervisor could not say what it copies.", detail=str(answer["error"]))
    found: list[dict[str, Any]] = answer["return"]
    return found


def _tell(domain: Any, command: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    """Give QEMU a command; return its answer, which has ``return`` or ``error``."""
    words = json.dumps({"execute": command, "arguments": arguments or {}})
    answer: dict[str, Any] = json.loads(libvirt_qemu.qemuMonitorCommand(domain, words, 0))
    return answer
