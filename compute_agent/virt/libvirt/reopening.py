"""The block nodes under a disk of a running guest, put on another export while the guest goes on.

libvirt calls the two nodes of a volume's disk ``libvirt-N-format`` (raw) and ``libvirt-N-storage`` (NBD), and must find
them under these names later.  An export keeps the size that it was made with, so a volume that has grown has a second
one.  ``move`` brings the disk to it:

1. a node of ours is opened on the new export; 2. the upper node is put on it; 3. libvirt's lower node is removed and
opened again, on the new export; 4. the upper node is put on that; 5. the node of ours is removed.

It may be cut off anywhere and is done again from what is there then.
"""

import json
import time
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from compute_agent.contract.build import VolumeConnection
from compute_agent.virt.libvirt import monitor

WAKE_TRIES, WAKE_PAUSE = 10, 0.1
CACHE = {"direct": True, "no-flush": False}
"""What libvirt makes of ``cache='none'``."""


def move(domain: Any, index: str, connection: VolumeConnection, certificates: str) -> bool:
    """Put the disk whose source has this ``index`` on the export; return whether it was on another one.

    ``certificates`` is the folder of the host's certificates.  Raises MonitorError, libvirtError; the guest goes on.
    """
    upper, lower, ours = f"libvirt-{index}-format", f"libvirt-{index}-storage", f"novella-{index}"
    nodes = monitor.nodes(domain)
    if connection.tls:
        _have_credentials(domain, lower, certificates)
    on_ours = ours in nodes and not _removed(domain, ours)
    if not on_ours:
        if place_of(nodes.get(lower, {})) == wanted_place(connection):
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
    """Have QEMU open the connection of a disk again if it is over: the guest may not have used it since, and whatever
    uses it first fails.  Raises MonitorError, libvirtError.
    """
    upper, lower = f"libvirt-{index}-format", f"libvirt-{index}-storage"
    nodes = monitor.nodes(domain)
    if upper in nodes and lower in nodes:
        _put(domain, upper, lower, nodes[upper])


def cut(domain: Any, index: str, device: str) -> None:
    """Close the volume of the disk ``device`` (QEMU's id) under a guest that does not let go of it.

    A disk without a single block takes its place: the guest gets an error for all that it reads or writes, and is not
    paused for it.  Raises MonitorError, libvirtError.
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
    """Return the export that a disk is on, and the socket or address where it is; empty texts when nobody can say."""
    return place_of(monitor.nodes(domain).get(f"libvirt-{index}-storage", {}))


def place_of(node: dict[str, Any]) -> tuple[str, str]:
    """Return the same of an NBD node, as QEMU describes it."""
    name = str(node.get("file", ""))
    if name.startswith("json:"):
        options = json.loads(name.removeprefix("json:"))
        server = options.get("server", {})
        where = server.get("path") or f"{server.get('host', '')}:{server.get('port', '')}"
        return str(options.get("export", "")), str(where)
    parts = urlsplit(name)
    where = (parse_qs(parts.query).get("socket") or [parts.netloc])[0]
    return unquote(parts.path.removeprefix("/")), where


def wanted_place(connection: VolumeConnection) -> tuple[str, str]:
    """Return the same of a connection."""
    return connection.export, connection.socket or f"{connection.address}:{connection.port}"


def _removed(domain: Any, node: str) -> bool:
    """Remove a node unless something is on it; return whether it is gone."""
    return "error" not in monitor.tell(domain, "blockdev-del", {"node-name": node})


def _put(domain: Any, upper: str, lower: str, told: dict[str, Any]) -> None:
    options = {
        "driver": "raw",
        "node-name": upper,
        "file": lower,
        "read-only": told["ro"],
        "discard": "unmap",
        "detect-zeroes": told["detect_zeroes"],
        "cache": CACHE,
    }
    for _ in range(WAKE_TRIES):  # it begins with a flush, which fails once where the connection was over
        if "error" not in monitor.tell(domain, "blockdev-reopen", {"options": [options]}):
            return
        time.sleep(WAKE_PAUSE)
    monitor.ask(domain, "blockdev-reopen", {"options": [options]})


def _lower(name: str, libvirts: str, connection: VolumeConnection) -> dict[str, Any]:
    """Return the options of an NBD node, as libvirt gives them to its own."""
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
    """Let QEMU have the host's certificates, as they are now, under libvirt's name for them.

    QEMU read those that it has when the disk came; nodes that are open keep them, whatever has their name now.
    """
    name = _credentials(lower)
    if "error" in monitor.tell(domain, "object-del", {"id": name}) and name in _objects(domain):
        return
    credentials = {"qom-type": "tls-creds-x509", "id": name, "dir": certificates, "endpoint": "client"}
    monitor.ask(domain, "object-add", credentials | {"verify-peer": True})
