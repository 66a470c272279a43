"""The newest change of each volume that this host has seen. Commands from older states of the database are refused."""

import msgspec
from msgspec.structs import replace

from compute_agent.contract.volume import (
    MOST_KNOWN,
    ConnectVolumeRequest,
    CreateVolumeRequest,
    DeleteVolumeRequest,
    FetchVolumeRequest,
    KnownVolume,
    UnmanageVolumeRequest,
    VolumeCommand,
)
from compute_agent.engine.store import StateStore, SubjectRecord
from compute_agent.engine.subjects import Subject

DATA = "volume_data"
"""The kind of subject under which the store keeps volumes' states, by the ids of their data."""
_known = msgspec.json.Decoder(KnownVolume)


class VolumeMemory:
    """Stores the newest version of each volume and the result of its last command. Used in the event loop's thread
    only.
    """

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def refuses(self, body: VolumeCommand) -> KnownVolume | None:
        """Return the known state of the command's volume if the command is refused: it is older than the state, or has
        the same version and omits a client of the state. Return None for all other commands.
        """
        known = self._of(body.volume.id)
        if known is None or not body.volume.version or body.volume.version > known.version:
            return None
        if body.volume.version < known.version:
            return known
        if not isinstance(body, ConnectVolumeRequest):
            return None
        named = {client.attachment_id for client in body.clients}
        return known if any(client.attachment_id not in named for client in known.clients or ()) else None

    def begin(self, body: VolumeCommand) -> None:
        """Record the command's version before the command changes anything."""
        if body.volume.version:
            self._store.see(Subject(DATA, body.volume.id), body.volume.version)

    def end(self, volume_id: str, body: VolumeCommand) -> None:
        """Record the result of a command."""
        spec, subject = body.volume, Subject(DATA, body.volume.id)
        if self._store.subject(subject) is None:  # the portal sends no versions
            return
        if isinstance(body, DeleteVolumeRequest | UnmanageVolumeRequest):
            self._store.mark_removed(subject, spec.version)
            return
        before, makes = self._of(spec.id), isinstance(body, CreateVolumeRequest | FetchVolumeRequest)
        if before is not None and before.gone and not makes:
            return
        clients = before.clients if before else None
        if makes:
            clients = []
        elif isinstance(body, ConnectVolumeRequest):
            clients = body.clients
        encrypted = spec.encryption is not None or (before is not None and before.encrypted)
        known = KnownVolume(
            data_id=spec.id,
            version=0,
            volume_id=volume_id,
            pool_id=spec.pool_id,
            size_gb=spec.size_gb,
            clients=clients,
            encrypted=encrypted,
        )
        self._store.describe(subject, msgspec.json.encode(known))

    def listed(self) -> list[KnownVolume]:
        """List the known states of volumes, latest first."""
        return [_read(*row) for row in self._store.remembered(DATA, MOST_KNOWN)]

    def _of(self, data_id: str) -> KnownVolume | None:
        record = self._store.subject(Subject(DATA, data_id))
        if record is None:
            return None
        return _read(record, self._store.description(record.subject))


def _read(record: SubjectRecord, description: bytes | None) -> KnownVolume:
    version = record.generation
    if description is None:
        return KnownVolume(data_id=record.subject.id, version=version, gone=record.removed >= 0)
    return replace(_known.decode(description), version=version)
