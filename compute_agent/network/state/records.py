"""Plugged instances of this host, stored on disk so that a restarted agent knows them."""

import contextlib
import logging
from pathlib import Path
from uuid import UUID

import msgspec

from compute_agent.contract.build import Frozen, InstanceSpec, PortRef
from compute_agent.network.state.desired import LocalPort

log = logging.getLogger(__name__)


class Plugged(Frozen, frozen=True, kw_only=True):
    """The interfaces of an instance that are plugged in on this host."""

    uuid: str
    hostname: str
    ports: list[PortRef]
    away: bool = False  # the guest is on the other host of its migration


class Records:
    """One JSON file for each instance in ``folder``."""

    def __init__(self, folder: Path) -> None:
        """Read the stored records; an unreadable file is ignored and logged."""
        self._folder = folder
        self._plugged: dict[str, Plugged] = {}
        for path in sorted(folder.glob("*.json")):
            try:
                record = msgspec.json.decode(path.read_bytes(), type=Plugged)
            except (OSError, msgspec.MsgspecError) as error:
                log.warning("%s cannot be read: %s", path, error)
                continue
            self._plugged[record.uuid] = record

    def put(self, spec: InstanceSpec, *, away: bool | None = None) -> None:
        """Store the instance's interfaces, and whether its guest is away; None: as before."""
        uuid = str(UUID(spec.uuid))
        if away is None:
            away = (known := self._plugged.get(uuid)) is not None and known.away
        self._store(Plugged(uuid=uuid, hostname=spec.hostname, ports=spec.ports, away=away))

    def move(self, uuid: str, *, away: bool) -> list[PortRef]:
        """Store whether a guest is away. Return its interfaces; none if the instance is not plugged."""
        record = self._plugged.get(uuid)
        if record is None:
            return []
        self._store(msgspec.structs.replace(record, away=away))
        return record.ports

    def _store(self, record: Plugged) -> None:
        if self._plugged.get(record.uuid) == record:
            return
        path = self._folder / f"{record.uuid}.json"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1))
        part.replace(path)
        self._plugged[record.uuid] = record

    def remove(self, uuid: str) -> Plugged | None:
        """Delete the instance's record and return it."""
        record = self._plugged.pop(uuid, None)
        with contextlib.suppress(FileNotFoundError):
            (self._folder / f"{UUID(uuid)}.json").unlink()
        return record

    def uuids(self) -> set[str]:
        """Return the ids of the plugged instances."""
        return set(self._plugged)

    def ports_of(self, uuid: str) -> list[PortRef]:
        """Return the interfaces of one instance."""
        record = self._plugged.get(uuid)
        return record.ports if record is not None else []

    def local_ports(self) -> list[LocalPort]:
        """Return the interfaces of all instances; callable from any thread."""
        return [
            LocalPort(record.uuid, port.dns_name or record.hostname, port, record.away)
            for record in list(self._plugged.values())
            for port in record.ports
        ]
