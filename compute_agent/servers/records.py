"""The descriptions of the servers of this host, kept in the engine's store."""

import msgspec

from compute_agent.contract.build import InstanceSpec, image_refs
from compute_agent.contract.commands import AttachInterfaceRequest
from compute_agent.contract.messages import SERVER
from compute_agent.engine.store import StateStore
from compute_agent.engine.subjects import subject_of

_spec = msgspec.json.Decoder(InstanceSpec)


def described(spec: InstanceSpec) -> bytes:
    """Return a description as it is kept: without the password, which only the seed needs."""
    return msgspec.json.encode(msgspec.structs.replace(spec, admin_password=None))


class ServerRecords:
    """Reads the descriptions of servers; for the event loop's thread only."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def specs(self) -> dict[str, InstanceSpec]:
        """Return the descriptions of the servers, by their ids, as far as this host knows them."""
        return {uuid: _spec.decode(found) for uuid, found in self._store.descriptions(SERVER).items()}

    def spec(self, uuid: str) -> InstanceSpec | None:
        """Return the description of one server; None when this host does not know it."""
        found = self._store.descriptions(SERVER).get(uuid)
        return _spec.decode(found) if found is not None else None

    def described(self) -> set[str]:
        """Return the servers whose descriptions this host knows."""
        return set(self._store.descriptions(SERVER))

    def images(self) -> set[str]:
        """Return the ids of the images that servers of this host are created from, or boot from."""
        return {image.id for spec in self.specs().values() for image in image_refs(spec)}

    def being_attached(self) -> dict[str, InstanceSpec]:
        """Return servers with the interfaces that an earlier process may have plugged in, by commands that go on."""
        begun = [stored.command for stored in self._store.unfinished() if stored.begun]
        return {
            subject_of(command).id: command.body.instance
            for command in begun
            if isinstance(command.body, AttachInterfaceRequest)
        }
