"""Switches the block nodes of a running guest's disk to another export.

libvirt names the two nodes of a volume's disk ``libvirt-N-format`` (raw) and ``libvirt-N-storage`` (NBD, below it), and
must find nodes with these names later. An export keeps its initial size, so an extended volume has a second export.
``move`` switches the disk to the second export:

1. open a node ``novella-N`` on the new export;
2. switch the format node to ``novella-N``;
3. remove libvirt's storage node and open it again on the new export;
4. switch the format node to the storage node;
5. remove ``novella-N``.

``move`` may be interrupted at any step. The next call continues from the current state.
"""

import json
import time
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from compute_agent.contract.build import VolumeConnection
from compute_agent.virt.libvirt import monitor

WAKE_TRIES, WAKE_PAUSE = 10, 0.1
CACHE = {"direct": True, "no-flush": False}
"""libvirt's settings for ``cache='none'``."""


def move(domain: Any, index: str, connection: VolumeConnection, certificates: str) -> bool:
    """Switch the disk whose source has this ``index`` to the export. Return whether it was on another export.

    ``certificates`` is the directory of the host's certificates. Raises MonitorError, libvirtError; the guest keeps
    running.
    """
    upper, lower, ours = f"libvirt-{index}-format", f"libvirt-{index}-storage", f"novella-{index}"
    nodes = monitor.nodes(domain)
    if connection.tls:
        _have_credentials(domain, lower, certificates)
    on_ours = ours in nodes and not _removed(domain, ours)
    if not on_ours:
        if place_of(nodes.get(lower, {})) == place_of_connection(connection):
            return False
        monitor.ask(domain, "blockdev-add", _lower(ours, lower, connection))
        _put(domain, upper, ours, nodes[upper])
    if lower in monitor.nodes(domain):
        monitor.ask(domain, "blockdev-del", {"node-name": lower})
    monitor.ask(domain, "blockdev-add", _lower(lower, lower, connection))
    _put(domain, upper, lower, nodes[upper])
    monitor.ask(domain, "blockdev-del", {"node-name": ours})
    return True


def wake(domain: Any, index: str) -> None:
    """Have QEMU open a closed connection of a disk again. Otherwise the next request would fail.

    Raises MonitorError, libvirtError.
    """
    upper, lower = f"libvirt-{index}-format", f"libvirt-{index}-storage"
    nodes = monitor.nodes(domain)
    if upper in nodes and lower in nodes:
        _put(domain, upper, lower, nodes[upper])


def cut(domain: Any, index: str, device: str) -> None:
    """Close the volume of the disk ``device`` (QEMU's id) of a guest that does not release it.

    The volume is replaced by a disk of size 0: the guest gets I/O errors and is not paused. Raises MonitorError,
    libvirtError.
    """
    upper, lower, nothing = f"libvirt-{index}-format", f"libvirt-{index}-storage", f"novella-nothing-{index}"
    nodes = monitor.nodes(domain)
    if nothing not in nodes:
        monitor.ask(domain, "blockdev-add", {"driver": "null-co", "node-name": nothing, "size": 0})
    monitor.ask(domain, "qom-set", {"path": f"/machine/peripheral/{device}", "property": "drive", "value": nothing})
    for node in (upper, lower, f"novella-{index}"):
        if node in nodes:
            monitor.ask(domain, "blockdev-del", {"node-name": node})


def place(domain: Any, index: str) -> tuple[str, str]:
    """Return a disk's export and its socket or address; empty texts if unknown."""
    return place_of(monitor.nodes(domain).get(f"libvirt-{index}-storage", {}))


def place_of(node: dict[str, Any]) -> tuple[str, str]:
    """Return export and socket or address of an NBD node, as described by QEMU."""
    name = str(node.get("file", ""))
    if name.startswith("json:"):
        options = json.loads(name.removeprefix("json:"))
        server = options.get("server", {})
        where = server.get("path") or f"{server.get('host', '')}:{server.get('port', '')}"
        return str(options.get("export", "")), str(where)
    parts = urlsplit(name)
    where = (parse_qs(parts.query).get("socket") or [parts.netloc])[0]
    return unquote(parts.path.removeprefix("/")), where


def place_of_connection(connection: VolumeConnection) -> tuple[str, str]:
    """Return export and socket or address of a connection."""
    return connection.export, connection.socket or f"{connection.address}:{connection.port}"


def _removed(domain: Any, node: str) -> bool:
    """Remove a node unless it is in use; return whether it was removed."""
    return "error" not in monitor.execute(domain, "blockdev-del", {"node-name": node})


def _put(domain: Any, upper: str, lower: str, node: dict[str, Any]) -> None:
    options = {
        "driver": "raw",
        "node-name": upper,
        "file": lower,
        "read-only": node["ro"],
        "discard": "unmap",
        "detect-zeroes": node["detect_zeroes"],
        "cache": CACHE,
    }
    for _ in range(WAKE_TRIES):  # reopening first flushes, which fails once on a closed connection
        if "error" not in monitor.execute(domain, "blockdev-reopen", {"options": [options]}):
            return
        time.sleep(WAKE_PAUSE)
    monitor.ask(domain, "blockdev-reopen", {"options": [options]})


def _lower(name: str, libvirts: str, connection: VolumeConnection) -> dict[str, Any]:
    """Return the options of an NBD node, the same as for libvirt's own nodes."""
    if connection.socket:
        server = {"type": "unix", "path": connection.socket}
    else:
        server = {"type": "inet", "host": connection.address, "port": str(connection.port)}
    options: dict[str, Any] = {
        "driver": "nbd",
        "node-name": name,
        "server": server,
        "export": connection.export,
        "auto-read-only": True,
        "discard": "unmap",
        "cache": CACHE,
    }
    if connection.tls:
        options["tls-creds"] = _credentials(libvirts)
        if connection.tls_hostname:
            options["tls-hostname"] = connection.tls_hostname
    return options


def _objects(domain: Any) -> set[str]:
    return {each["name"] for each in monitor.ask(domain, "qom-list", {"path": "/objects"})}


def _credentials(lower: str) -> str:
    return f"obj{lower}_tls0"


def _have_credentials(domain: Any, lower: str, certificates: str) -> None:
    """Load the host's certificates in QEMU again, under libvirt's name for them.

    QEMU reads certificates when the disk is attached. Open nodes keep the certificates that they were opened with.
    """
    name = _credentials(lower)
    if "error" in monitor.execute(domain, "object-del", {"id": name}) and name in _objects(domain):
        return
    credentials = {"qom-type": "tls-creds-x509", "id": name, "dir": certificates, "endpoint": "client"}
    monitor.ask(domain, "object-add", credentials | {"verify-peer": True})
