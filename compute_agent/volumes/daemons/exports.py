"""The exports of a storage daemon, and the QMP commands that create them."""

import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from compute_agent.contract.volume import VolumeClient, VolumeSpec, client_export
from compute_agent.volumes.daemons.daemon_process import MOST_CONNECTIONS
from compute_agent.volumes.daemons.qmp import DaemonError, Qmp
from compute_agent.volumes.driver import Opening

CREDENTIALS, AUTHORIZED = "tls", "clients"
PLACEHOLDER = "placeholder"
ENDS_WITHIN, POLL = 30.0, 0.01
"""Seconds that the connections of a deleted export may need to end, and between two looks at them."""


class Export(msgspec.Struct, frozen=True):
    """One export of a daemon."""

    name: str
    size: int  # bytes of the volume when the export was created


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments and the exports of a daemon."""

    volume: VolumeSpec
    clients: list[VolumeClient] = []
    exports: list[Export] = []
    counter: int = 0
    port: int = 0  # 0: a unix socket
    gate: int = 0  # the port of the daemon's gate, if it has one


def name_of(volume: VolumeSpec, clients: Sequence[VolumeClient], counter: int) -> str:
    """Return the name of an export.

    For a volume that only one guest may have open, the attachment's id is part of the name. A guest from which the
    volume was detached by force may still run; it knows only the old name, which no longer exists. For a multiattach
    volume, each guest has its own export: this name, followed by the guest's attachment id (``client_export``).
    """
    whose = "" if volume.multiattach or not clients else f".{clients[0].attachment_id}"
    return f"{volume.id}{whose}.{counter}"


def volume_of(export: str) -> str:
    """Return the volume's id from the name of an export."""
    return export.partition(".")[0]


def is_of_others(before: Description, volume: VolumeSpec, clients: Sequence[VolumeClient]) -> bool:
    """Return whether a volume without multiattach is open for another guest, whose connection must end."""
    known = {client.attachment_id for client in before.clients}
    return bool(known) and not volume.multiattach and not known & {client.attachment_id for client in clients}


def open_nodes(qmp: Qmp, opening: Opening) -> None:
    for each in opening.objects:
        qmp.execute("object-add", **each)
    qmp.execute("blockdev-add", **opening.blockdev)


def placeholder(size: int) -> Opening:
    """Return a node of a volume that another host still has open: it reads as zeros, and refuses writes."""
    nothing = {"driver": "null-co", "size": size, "read-zeroes": True}
    refused = [{"event": "none", "iotype": kind} for kind in ("write", "write-zeroes", "discard")]
    return Opening({"driver": "blkdebug", "node-name": PLACEHOLDER, "image": nothing, "inject-error": refused})


def replace_placeholder(qmp: Qmp, opening: Opening) -> None:
    """Open the volume, and switch the exports from the placeholder to it. Their connections stay open.

    A mirror that copies only new writes is the way in which QEMU exchanges the node of an export.
    """
    open_nodes(qmp, opening)
    job = f"replace-{PLACEHOLDER}"
    qmp.execute("blockdev-mirror", job_id=job, device=PLACEHOLDER, target=opening.node, sync="none")
    _until(qmp, lambda jobs: jobs.get(job, "ready") == "ready", "is not ready")  # a failed job is missing
    qmp.execute("job-complete", id=job)
    _until(qmp, lambda jobs: job not in jobs, "does not end")
    qmp.execute("blockdev-del", node_name=PLACEHOLDER)


def _until(qmp: Qmp, reached: Callable[[Mapping[str, str]], bool], failure: str) -> None:
    deadline = time.monotonic() + ENDS_WITHIN
    while not reached({each["id"]: each["status"] for each in qmp.execute("query-jobs")}):
        if time.monotonic() > deadline:
            raise DaemonError(f"The exchange of a node {failure}.")
        time.sleep(POLL)


def serve(qmp: Qmp, host: str, port: int) -> None:
    """Listen on TCP for the hosts that ``authorize`` allows. The daemon has the object ``CREDENTIALS``."""
    qmp.execute(
        "nbd-server-start",
        addr={"type": "inet", "data": {"host": host, "port": str(port)}},
        max_connections=MOST_CONNECTIONS,
        tls_creds=CREDENTIALS,
        tls_authz=AUTHORIZED,
    )


def add_export(qmp: Qmp, name: str, node: str, *, read_only: bool) -> None:
    qmp.execute(
        "block-export-add",
        type="nbd",
        id=_export_id(name),
        node_name=node,
        name=name,
        writable=not read_only,
        writethrough=not read_only,
    )


def served(description: Description) -> dict[str, bool]:
    """Return the names of all exports, each with True if it is read-only."""
    volume, result = description.volume, dict[str, bool]()
    for export in description.exports:
        for client in description.clients:
            name = client_export(export.name, client.attachment_id, multiattach=volume.multiattach, move=client.move)
            result[name] = result.get(name, True) and client.read_only
    return result


def remote(description: Description) -> Description:
    """Return the description with only the clients on other hosts."""
    return msgspec.structs.replace(description, clients=[client for client in description.clients if not client.local])


def follow(qmp: Qmp, description: Description, node: str) -> None:
    """Add the missing exports of the description, and end other exports with their connections."""
    desired = served(description)
    there = {each["id"] for each in qmp.execute("query-block-exports")}
    for name, read_only in desired.items():
        if _export_id(name) not in there:
            add_export(qmp, name, node, read_only=read_only)
    for key in sorted(there - {_export_id(name) for name in desired}):
        _end_export(qmp, key)


def _end_export(qmp: Qmp, key: str) -> None:
    try:
        qmp.execute("block-export-del", id=key, mode="hard")
    except DaemonError as error:
        if not error.kind:
            raise


def _wait_for_end(qmp: Qmp, key: str) -> None:
    """Wait until the connections of a deleted export have ended; until then its node is in use."""
    deadline = time.monotonic() + ENDS_WITHIN
    while any(each["id"] == key for each in qmp.execute("query-block-exports")):
        if time.monotonic() > deadline:
            raise DaemonError(f"The connections of {key} do not end.")
        time.sleep(POLL)


def _export_id(name: str) -> str:
    return "export-" + name.replace(":", "-")


def follow_gate(qmp: Qmp, description: Description, socket: Path) -> None:
    """Let a gate export the exports of another daemon at ``socket``, and end its other exports."""
    desired = served(description)
    there = {each["id"]: each["node-name"] for each in qmp.execute("query-block-exports")}
    for key in sorted(there.keys() - {_export_id(name) for name in desired}):
        _end_export(qmp, key)
        _wait_for_end(qmp, key)
        qmp.execute("blockdev-del", node_name=there[key])
    for name, read_only in desired.items():
        if _export_id(name) not in there:
            node = f"gate-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
            server = {"type": "unix", "path": str(socket)}
            with contextlib.suppress(DaemonError):  # left by an interrupted call
                qmp.execute("blockdev-del", node_name=node)
            qmp.execute(
                "blockdev-add", driver="nbd", node_name=node, server=server, export=name, read_only=read_only,
                discard="unmap",
            )  # fmt: skip
            add_export(qmp, name, node, read_only=read_only)


def authorize(qmp: Qmp, clients: Sequence[VolumeClient]) -> None:
    """Allow only hosts of these clients to connect from now on, identified by their certificates."""
    with contextlib.suppress(DaemonError):
        qmp.execute("object-del", id=AUTHORIZED)
    rules = [
        {"match": f"CN={host}", "policy": "allow", "format": "exact"}
        for host in sorted({client.host_id for client in clients})
    ]
    qmp.execute("object-add", qom_type="authz-list", id=AUTHORIZED, policy="deny", rules=rules)
