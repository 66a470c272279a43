"""Checks after a loss of records: no guest and no data is destroyed, and the doctor reports all differences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provisioning.compute.models import Instance
from provisioning.compute.states import TaskState, VmState
from provisioning.doctor.finding import Finding
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from provisioning.network.models import Port
from provisioning.volumes.host_link.host_commands import data_id_of
from provisioning.volumes.models import Attachment, Backup, Snapshot, Volume
from provisioning.volumes.states import AttachStatus, SnapshotStatus, VolumeStatus
from tools.chaos.checks import checks, volume_checks
from tools.chaos.checks.journals import Domain, Seen
from tools.chaos.checks.wrongs import wrong

TOLD_OF = frozenset(
    {"newer_guests", "newer_documents", "newer_volumes", "guests", "leftovers", "shelves", "images", "backups"}
    | {"leaving_ports", "guest_interfaces", "undecided_volumes"}
)
"""The doctor's checks that find differences between records and hosts. All other checks must not find anything."""
_ENDING = {TaskState.DELETING, TaskState.SOFT_DELETING}
_GOING = {VolumeStatus.DELETING, VolumeStatus.ERROR_DELETING}
_COMING = {VolumeStatus.CREATING, VolumeStatus.DOWNLOADING}
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Server:
    """A server in the records."""

    vm_state: str
    task_state: str | None
    host: str

    @property
    def ends(self) -> bool:
        return self.vm_state in {VmState.DELETED, VmState.SOFT_DELETED} or self.task_state in _ENDING


@dataclass(frozen=True)
class Records:
    """The cloud's records at one time."""

    servers: Mapping[str, Server]
    volumes: Mapping[str, str]
    """Id of the data → status of the volume."""
    snapshots: Mapping[str, str]
    attachments: Mapping[str, str]
    images: frozenset[str]
    """Ids of active images."""
    leaving: frozenset[str]
    """MAC addresses of interfaces that are being detached."""
    ids: frozenset[str]
    """Ids of all volumes, their data, snapshots, attachments and backups."""
    moving: Mapping[str, str] = field(default_factory=dict)
    """Id of the data of a volume that is being migrated → id of its new data."""
    usable: int = 0
    """Number of hosts that are neither in maintenance nor forced down."""

    @classmethod
    def read(cls) -> Records:
        """Read the current records. Raises DatabaseError."""
        servers = {str(row.id): Server(row.vm_state, row.task_state, row.host_name) for row in _servers()}
        rows = list(Volume.objects.all())
        volumes = {data_id_of(row): str(row.status) for row in rows}
        snapshots = {str(key): status for key, status in Snapshot.objects.values_list("id", "status")}
        attachments = {str(key): status for key, status in Attachment.objects.values_list("id", "status")}
        backups = {str(key) for key in Backup.objects.values_list("id", flat=True)}
        images = Image.objects.filter(status=Image.Status.ACTIVE).values_list("id", flat=True)
        every = {*volumes, *snapshots, *attachments, *backups, *(str(row.id) for row in rows)}
        leaving = frozenset(Port.objects.filter(leaving=True).values_list("mac_address", flat=True))
        data = {row.id: data_id_of(row) for row in rows}
        moving = {data[row.migration_of]: data_id_of(row) for row in rows if row.migration_of in data}
        usable = frozenset(map(str, images))
        hosts = Host.objects.filter(enabled=True, forced_down=False).count()
        return cls(servers, volumes, snapshots, attachments, usable, leaving, frozenset(every), moving, hosts)


def _servers() -> Iterable[Instance]:
    return Instance.objects.select_related("host")


@dataclass(frozen=True)
class Loss:
    """A loss of records, with the state before it and the remaining records."""

    last: Records
    """The newest records before the loss."""
    kept: Records
    """The records after the loss."""
    seen: Seen
    """Guests and data of the hosts at rest."""
    files: frozenset[str]
    """Names of the image files before the loss."""

    def size(self) -> str:
        """Describe how many records differ."""
        servers = sum(self.last.servers.get(key) != self.kept.servers.get(key) for key in self._servers())
        return f"{servers} servers and {len(self.last.ids ^ self.kept.ids)} things of volumes differed"

    def _servers(self) -> set[str]:
        return {*self.last.servers, *self.kept.servers}


def destroyed(loss: Loss, seen: Seen, images: Path) -> Iterator[Finding]:
    """Yield missing guests, volumes, snapshots and images that must not have been deleted according to the kept
    records.
    """
    for uuid, (host, domain) in loss.seen.domains.items():
        if _has_to_stay(loss, uuid, host):
            yield from _domain(loss, uuid, (host, domain), seen.domains.get(uuid))
    for pool, volumes in loss.seen.pools.items():
        for key, data in volumes.items():
            stays = loss.last.volumes.get(key) not in {None, *_GOING, *_COMING}
            if stays and loss.kept.volumes.get(key) not in _GOING and not _has_moved(loss, key, seen):
                yield from _data(loss, key, data, seen.pools.get(pool, {}).get(key))
    for name in sorted(loss.files & loss.last.images):
        if not (images / name).exists():
            yield wrong(f"image {name}", "Its data was there when records were lost, and is not now.")


def _has_to_stay(loss: Loss, uuid: str, host: str) -> bool:
    """Return whether the server had no task on the host in the last records, and is not deleted in the kept records."""
    last, kept = loss.last.servers.get(uuid), loss.kept.servers.get(uuid)
    if last is None or last.host != host or last.task_state is not None or last.ends:
        return False
    return kept is None or not kept.ends


def _domain(loss: Loss, uuid: str, was: tuple[str, Domain], now: tuple[str, Domain] | None) -> Iterator[Finding]:
    if now is None or now[0] != was[0]:
        yield wrong(uuid, f"It had a domain on {was[0]} when records were lost, and has none there now.")
        return
    if now[1]["power"] != was[1]["power"]:
        yield wrong(uuid, f"Its domain was in power state {was[1]['power']}, and is in {now[1]['power']}.")
    for key in sorted(_disks(was[1]) - _disks(now[1])):
        if loss.kept.attachments.get(key) != AttachStatus.DETACHING:
            yield wrong(uuid, f"Its domain had the disk of attachment {key} when records were lost.")
    ends = loss.last.leaving | loss.kept.leaving
    for mac in sorted(set(was[1].get("interfaces", ())) - set(now[1].get("interfaces", ())) - ends):
        yield wrong(uuid, f"Its domain had the interface {mac} when records were lost.")


def _has_moved(loss: Loss, key: str, seen: Seen) -> bool:
    """Return whether the data of a migrating volume was removed because the guest had switched to the new data."""
    new = loss.last.moving.get(key)
    used = {str(disk["attachment_id"]) for _, domain in seen.domains.values() for disk in domain.get("volumes", [])}
    return any(used & clients_of(volumes.get(new)) for volumes in seen.pools.values() if new)


def clients_of(data: Mapping[str, Any] | None) -> set[str]:
    """Return the ids of the attachments that may open a volume's data."""
    return {str(client["attachment_id"]) for client in (data or {}).get("clients", [])}


def _disks(domain: Domain) -> set[str]:
    return {str(disk["attachment_id"]) for disk in domain.get("volumes", [])}


def _data(loss: Loss, key: str, was: Mapping[str, Any], now: Mapping[str, Any] | None) -> Iterator[Finding]:
    if now is None:
        yield wrong(f"volume {key}", "Its data was there when records were lost, and is not now.")
        return
    if now["size"] < was["size"]:
        yield wrong(f"volume {key}", f"Its data had {was['size']} bytes when records were lost, and has {now['size']}.")
    for name in sorted(was["snapshots"].keys() - now["snapshots"].keys()):
        available = loss.last.snapshots.get(name) == SnapshotStatus.AVAILABLE
        if available and loss.kept.snapshots.get(name) != SnapshotStatus.DELETING:
            yield wrong(f"snapshot {name}", f"It was there in {key} when records were lost, and is not now.")


def differences(seen: Seen) -> list[Finding]:
    """Return the differences between the hosts and the records."""
    return [*checks.domains(seen), *checks.reported(seen), *volume_checks.everywhere(seen)]


def unnamed(loss: Loss, seen: Seen, found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield differences that the doctor did not report, and reports of the doctor that are wrong.

    Differences of volumes whose records were lost need not be reported, because the doctor does not read the simulated
    pools.
    """
    listed = list(found)
    named = ids_in(listed) | (loss.last.ids ^ loss.kept.ids)
    yield from (finding for finding in differences(seen) if not ids_in([finding]) & named)
    yield from (finding for finding in listed if finding.severity != "note" and finding.check not in TOLD_OF)


def ids_in(findings: Iterable[Finding]) -> set[str]:
    """Return the UUIDs in the findings."""
    return {key for finding in findings for key in _UUID.findall(f"{finding.subject} {finding.sentence}")}
