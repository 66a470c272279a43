"""The specs of the servers of this host, kept in the engine's store."""

import msgspec

from compute_agent.contract.build import InstanceSpec, image_refs
from compute_agent.contract.commands import AttachInterfaceRequest
from compute_agent.contract.messages import SERVER
from compute_agent.engine.store import StateStore
from compute_agent.engine.subjects import subject_of

_spec = msgspec.json.Decoder(InstanceSpec)


def described(spec: InstanceSpec) -> bytes:
    """Return a spec as it is stored: without the password, which only the seed needs."""
    return msgspec.json.encode(msgspec.structs.replace(spec, admin_password=None))


class ServerRecords:
    """Reads the specs of servers. For the event loop's thread only."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def specs(self) -> dict[str, InstanceSpec]:
        """Return server id → spec, for the servers whose specs this host has stored."""
        return {uuid: _spec.decode(found) for uuid, found in self._store.descriptions(SERVER).items()}

    def spec(self, uuid: str) -> InstanceSpec | None:
        """Return the spec of one server; None if this host has not stored it."""
        content = self._store.descriptions(SERVER).get(uuid)
        return _spec.decode(content) if content is not None else None

    def described(self) -> set[str]:
        """Return the ids of the servers whose specs this host has stored."""
        return set(self._store.descriptions(SERVER))

    def images(self) -> set[str]:
        """Return the ids of the images that servers of this host are created from, or boot from."""
        return {image.id for spec in self.specs().values() for image in image_refs(spec)}

    def being_attached(self) -> dict[str, InstanceSpec]:
        """Return server id → spec for unfinished attachments of interfaces, which an earlier process may have attached
        already.
        """
        begun = [stored.command for stored in self._store.unfinished() if stored.begun]
        return {
            subject_of(command).id: command.body.instance
            for command in begun
            if isinstance(command.body, AttachInterfaceRequest)
        }
