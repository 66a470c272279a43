"""Documents of networks, routers, floating IPs and security groups that this host has received, stored on disk."""

import contextlib
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar, cast
from uuid import UUID

import msgspec

from compute_agent.contract.build import Frozen, PortRef
from compute_agent.contract.messages import Owned
from compute_agent.contract.network import (
    FLOATING_IP,
    NETWORK,
    ROUTER,
    SECURITY_GROUP,
    FloatingIpDocument,
    NetworkDocument,
    RouterDocument,
    SecurityGroupDocument,
)

log = logging.getLogger(__name__)

Document = NetworkDocument | RouterDocument | FloatingIpDocument | SecurityGroupDocument
D = TypeVar("D", bound=Document)

TYPES: Mapping[str, type[Document]] = {
    NETWORK: NetworkDocument,
    ROUTER: RouterDocument,
    FLOATING_IP: FloatingIpDocument,
    SECURITY_GROUP: SecurityGroupDocument,
}
"""Kind → type of its documents."""


class _StoredDocument(Frozen, frozen=True):
    generation: int
    document: msgspec.Raw
    digest: str = ""


class Version(NamedTuple):
    """The version of a stored document."""

    generation: int
    digest: str = ""
    """Empty if the portal sent none."""


def kind_of(document: Document) -> str:
    """Return the kind of the document's subject."""
    return next(kind for kind, made_of in TYPES.items() if isinstance(document, made_of))


def needed_by(ports: Iterable[PortRef]) -> set[tuple[str, str]]:
    """Return kind and id of the networks and groups that guests with these interfaces need."""
    ports = list(ports)
    return {(NETWORK, port.network.id) for port in ports} | {
        (SECURITY_GROUP, group_id) for port in ports for group_id in port.security_group_ids
    }


def vni_of(document: Document | None) -> int | None:
    """Return the VNI of a VXLAN network; None for all other documents."""
    if isinstance(document, NetworkDocument) and document.segment.type == "vxlan":
        return document.segment.id
    return None


class Documents:
    """Stores each document with its generation in a JSON file, ``<kind>/<id>.json`` in ``folder``."""

    def __init__(self, folder: Path) -> None:
        """Read the stored documents. An unreadable file is logged and ignored, because the portal sends the document
        again.
        """
        self._folder = folder
        self._kept: dict[str, dict[str, Document]] = {kind: {} for kind in TYPES}
        self._versions: dict[tuple[str, str], Version] = {}
        for kind in TYPES:
            for path in sorted((folder / kind).glob("*.json")):
                self._read(kind, path)

    def put(self, document: Document, generation: int, digest: str = "") -> bool:
        """Store the document, replacing the previous version. Return whether its content differs."""
        kind, subject_id = kind_of(document), str(UUID(document.id))
        known = self._kept[kind].get(subject_id)
        version = Version(generation, digest)
        if known == document and self._versions[kind, subject_id] == version:
            return False
        path = self._path(kind, subject_id)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(msgspec.json.encode({**version._asdict(), "document": document}))
        part.replace(path)
        self._kept[kind][subject_id] = document
        self._versions[kind, subject_id] = version
        return known != document

    def remove(self, kind: str, subject_id: str) -> bool:
        """Delete the document; return whether it was stored."""
        with contextlib.suppress(FileNotFoundError):
            self._path(kind, str(UUID(subject_id))).unlink()
        self._versions.pop((kind, subject_id), None)
        return self._kept[kind].pop(subject_id, None) is not None

    def listed(self, ports: Iterable[PortRef] = ()) -> list[Owned]:
        """Return the stored documents with their versions, and whether guests need them. ``ports``: the interfaces of
        this host's guests.
        """
        used = needed_by(ports)
        return [
            Owned(
                subject_kind=kind,
                subject_id=subject_id,
                generation=version.generation,
                digest=version.digest,
                in_use=(kind, subject_id) in used,
                vni=vni_of(self._kept[kind].get(subject_id)),
            )
            for (kind, subject_id), version in sorted(self._versions.items())
        ]

    def holds(self, listed: Owned) -> bool:
        """Return whether the stored document still has the generation of ``listed``."""
        version = self._versions.get((listed.subject_kind, listed.subject_id))
        return version is not None and version.generation == listed.generation

    def of(self, made_of: type[D]) -> dict[str, D]:
        """Return a copy of the documents of one type, by id."""
        kind = next(kind for kind, each in TYPES.items() if each is made_of)
        return cast("dict[str, D]", dict(self._kept[kind]))

    def _path(self, kind: str, subject_id: str) -> Path:
        return self._folder / kind / f"{subject_id}.json"

    def _read(self, kind: str, path: Path) -> None:
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=_StoredDocument)
            self._kept[kind][path.stem] = msgspec.json.decode(kept.document, type=TYPES[kind])
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("%s cannot be read: %s", path, error)
            return
        self._versions[kind, path.stem] = Version(kept.generation, kept.digest)
