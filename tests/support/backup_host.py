"""The host's part of backups in tests: the agent's own code over a disk in memory, without HTTP."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from django.test import Client

from compute_agent.contract.messages import Enrol
from compute_agent.contract.volume import BackupVolumeRequest, RestoreVolumeRequest, VolumeSpec
from compute_agent.disk_formats.extents import Extent
from compute_agent.link.backup_link import BackupLink
from compute_agent.virt.driver import Stopped, never
from compute_agent.volumes.backup_outlet import BackupOutlet, SentBackup
from compute_agent.volumes.backups.backup_sources import BackupSource, BackupSpec, VolumeCopies, whole
from compute_agent.volumes.backups.backups import put_together, send_all
from provisioning.hosts import enrolment
from provisioning.hosts.models import Host

BLOCK = 65_536


class ClientLink(BackupLink):
    """The agent's way to the portal's addresses for hosts, through Django's client."""

    def __init__(self, host: Host, credential: str = "") -> None:
        self.faults: list[int] = []
        """Statuses of the next answers, in place of the portal's."""
        self._client, self._name, self._credential = Client(enforce_csrf_checks=True), host.name, credential
        if not credential:
            self._credential = secrets.token_hex(32)
            Host.objects.filter(id=host.id).update(credential_digest="")
            token = enrolment.create_join_token(host.name)
            enrolment.enrol(Enrol(join_token=token, host=host.name, credential=self._credential))

    def _try(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], longest: int
    ) -> tuple[int, bytes]:
        if self.faults:
            return self.faults.pop(0), b"a fault"
        sent_headers = {"authorization": f"Bearer {self._credential}", "x-novella-host": self._name, **headers}
        answer = self._client.generic(method, path, body or b"", "application/octet-stream", headers=sent_headers)
        return answer.status_code, answer.content


@dataclass
class MemoryCopies(VolumeCopies):
    """Disks of 1 GiB of which only blocks that were written are kept; moments by backup."""

    folder: Path
    disks: dict[str, dict[int, bytes]] = field(default_factory=dict)
    moments: dict[str, dict[int, bytes]] = field(default_factory=dict)

    def write(self, volume_id: object, block: int, data: bytes) -> None:
        self.disks.setdefault(str(volume_id), {})[block] = data.ljust(BLOCK, b"\0")

    @contextmanager
    def freeze(self, volume: VolumeSpec, backup: BackupSpec, stopped: Stopped) -> Iterator[BackupSource]:
        now = dict(self.disks.get(volume.id, {}))
        before = self.moments.get(backup.parent_id)
        changed = [block for block in sorted(now) if before is None or before.get(block) != now[block]]
        extents = [Extent(block * BLOCK, BLOCK) for block in changed]
        size = volume.size_gb << 30
        self.moments[backup.backup_id] = now
        yield BackupSource(
            size,
            whole(extents, size) if before is None else extents,
            lambda offset, length: now[offset // BLOCK][:length],
            before is None,
        )

    def backed_up(self, volume: VolumeSpec, backup: BackupSpec) -> None:
        kept = (backup.backup_id, backup.parent_id)
        self.moments = {name: blocks for name, blocks in self.moments.items() if name in kept}

    def overwrite(self, volume: VolumeSpec, content: Path, stopped: Stopped) -> None:
        blocks = {}
        with content.open("rb") as file:
            for block in range(64):
                file.seek(block * BLOCK)
                if (data := file.read(BLOCK)).strip(b"\0"):
                    blocks[block] = data
        self.disks[volume.id] = blocks

    def staging(self, volume: VolumeSpec) -> Path:
        return self.folder


@dataclass
class BackupHost:
    """Carries out commands for backups."""

    outlet: BackupOutlet
    copies: MemoryCopies

    def carry_out(self, body: BackupVolumeRequest | RestoreVolumeRequest) -> dict[str, str]:
        if isinstance(body, BackupVolumeRequest):
            return self.back_up(body)
        self.restore(body)
        return {}

    def back_up(self, body: BackupVolumeRequest) -> dict[str, str]:
        requested = BackupSpec(body.backup_id, body.parent_id, body.snapshot_id)
        with self.copies.freeze(body.volume, requested, never) as source:
            digests = send_all(self.outlet, body.backup_id, source, never)
            self.outlet.seal(body.backup_id, SentBackup(digests, source.disk_bytes, source.full), never)
        self.copies.backed_up(body.volume, requested)
        return {"full": "true" if source.full else "false"}

    def restore(self, body: RestoreVolumeRequest) -> None:
        path = self.copies.folder / f"restore-{body.volume.id}"
        try:
            put_together(self.outlet, body.backup_ids, path, never)
            self.copies.overwrite(body.volume, path, never)
        finally:
            path.unlink(missing_ok=True)
