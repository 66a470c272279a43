"""QEMU's monitor (QMP) of a running guest, for operations that libvirt does not offer."""

import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import libvirt_qemu

from compute_agent.virt.errors import RetryableHostError

_NODE = re.compile(r"libvirt-(\d+)-[a-z-]+")
"""libvirt's names of the block nodes of a disk; the number is the ``index`` of its source in the domain's XML."""


class MonitorError(RetryableHostError):
    """QEMU refused a command; ``detail`` is its error."""


def ask(domain: Any, command: str, arguments: dict[str, Any] | None = None) -> Any:
    """Send a command to QEMU and return its result. Raises MonitorError, libvirtError."""
    answer = execute(domain, command, arguments)
    if "error" in answer:
        raise MonitorError("The hypervisor refused a change of the guest.", detail=f"{command}: {answer['error']}")
    return answer["return"]


def execute(domain: Any, command: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    """Send a command to QEMU and return its response, which contains ``return`` or ``error``."""
    words = json.dumps({"execute": command, "arguments": arguments or {}})
    answer: dict[str, Any] = json.loads(libvirt_qemu.qemuMonitorCommand(domain, words, 0))
    return answer


def nodes(domain: Any) -> dict[str, dict[str, Any]]:
    """Return node name → QEMU's description of the block node."""
    return {node["node-name"]: node for node in ask(domain, "query-named-block-nodes", {"flat": True})}


def unused_nodes(domain: Any) -> list[str]:
    """List the nodes that no disk of the guest uses, in the order in which they can be removed: a node comes before the
    node below it.
    """
    tree = ET.fromstring(domain.XMLDesc())  # noqa: S314 - libvirt's own output
    used = {source.attrib["index"] for source in tree.iterfind("./devices/disk//*[@index]")}
    left = [name for name in nodes(domain) if (match := _NODE.fullmatch(name)) is not None and match[1] not in used]
    return sorted(left, key=lambda name: name.endswith("-storage"))
