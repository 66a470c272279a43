"""What this host was told of networks, routers, floating IPs and security groups, kept on disk over restarts."""

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, cast
from uuid import UUID

import msgspec

from compute_agent.contract.build import Frozen
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
"""What documents of each kind are made of."""


class _Kept(Frozen, frozen=True):
    generation: int
    document: msgspec.Raw


def kind_of(document: Document) -> str:
    """Return the kind of subjects that the document is about."""
    return next(kind for kind, made_of in TYPES.items() if isinstance(document, made_of))


class Documents:
    """One JSON file for each document, ``<kind>/<id>.json`` in ``folder``, with its generation."""

    def __init__(self, folder: Path) -> None:
        """Read what is there; a file that cannot be read is left alone and logged: the portal sends it again."""
        self._folder = folder
        self._kept: dict[str, dict[str, Document]] = {kind: {} for kind in TYPES}
        self._generations: dict[tuple[str, str], int] = {}
        for kind in TYPES:
            for path in sorted((folder / kind).glob("*.json")):
                self._read(kind, path)

    def put(self, document: Document, generation: int) -> bool:
        """Keep the document in the place of the one before; say whether it is another one."""
        kind, subject_id = kind_of(document), str(UUID(document.id))
        known = self._kept[kind].get(subject_id)
        if known == document and self._generations[kind, subject_id] == generation:
            return False
        path = self._path(kind, subject_id)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(msgspec.json.encode({"generation": generation, "document": document}))
        part.replace(path)
        self._kept[kind][subject_id] = document
        self._generations[kind, subject_id] = generation
        return known != document

    def remove(self, kind: str, subject_id: str) -> bool:
        """Forget the document; say whether it was there."""
        with contextlib.suppress(FileNotFoundError):
            self._path(kind, str(UUID(subject_id))).unlink()
        self._generations.pop((kind, subject_id), None)
        return self._kept[kind].pop(subject_id, None) is not None

    def listed(self) -> list[Owned]:
        """Return what is kept, with the generation of each."""
        return [
            Owned(subject_kind=kind, subject_id=subject_id, generation=generation)
            for (kind, subject_id), generation in sorted(self._generations.items())
        ]

    def of(self, made_of: type[D]) -> dict[str, D]:
        """Return a copy of the documents of one type, by id."""
        kind = next(kind for kind, each in TYPES.items() if each is made_of)
        return cast("dict[str, D]", dict(self._kept[kind]))

    def _path(self, kind: str, subject_id: str) -> Path:
        return self._folder / kind / f"{subject_id}.json"

    def _read(self, kind: str, path: Path) -> None:
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
            self._kept[kind][path.stem] = msgspec.json.decode(kept.document, type=TYPES[kind])
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("%s cannot be read: %s", path, error)
            return
        self._generations[kind, path.stem] = kept.generation
