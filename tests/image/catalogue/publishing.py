"""An index that tests publish: in a folder, or on a web server on loopback."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from provisioning.catalogue import services
from provisioning.catalogue.index import signatures
from provisioning.catalogue.models import CatalogueIndex
from tests.image import pictures
from tests.support.web import Web

DATA = pictures.qcow2()


def entry(**values: Any) -> dict[str, Any]:
    """An entry of an index; its file has ``DATA``."""
    known = {
        "id": "tiny",
        "name": "Tiny Linux",
        "version": "1.0",
        "distro": "tiny",
        "architecture": "x86_64",
        "user": "ada",
        "disk_format": "qcow2",
        "file": "tiny.qcow2",
        "checksum": {"algorithm": "sha256", "value": hashlib.sha256(DATA).hexdigest()},
        "min_disk": 1,
        "min_ram": 64,
    }
    return {**known, **values}


def document(*entries: dict[str, Any], updated: str = "2026-01-01T00:00:00Z", **more: Any) -> bytes:
    return json.dumps(
        {"format": 1, "name": "Test images", "updated": updated, "images": list(entries), **more}
    ).encode()


@dataclass
class Publisher:
    """Writes a signed index into a folder that the cloud reads."""

    folder: Path
    key: bytes = field(default_factory=signatures.new_key)

    @property
    def trusted(self) -> list[str]:
        return [signatures.public_key(self.key)]

    def write(self, content: bytes, *, key: bytes | None = None) -> None:
        (self.folder / "index.json").write_bytes(content)
        (self.folder / "index.json.sig").write_text(signatures.sign(content, key or self.key))

    def publish(self, *entries: dict[str, Any], **more: Any) -> CatalogueIndex:
        """Write an index with these entries, and let the cloud read it."""
        self.write(document(*entries, **more))
        return services.refresh()


@pytest.fixture
def folder(settings: Settings, tmp_path: Path) -> Publisher:
    """A folder with an index that is trusted; the file of the entry lies beside it."""
    path = tmp_path / "catalogue"
    path.mkdir()
    (path / "tiny.qcow2").write_bytes(DATA)
    publisher = Publisher(path)
    settings.CATALOGUE, settings.CATALOGUE_KEYS = str(path), publisher.trusted
    return publisher


@pytest.fixture
def site(web: Web, settings: Settings, folder: Publisher) -> Web:
    """The same on a web server."""
    settings.CATALOGUE = web.url("/catalogue/index.json")
    web.serve("/catalogue/tiny.qcow2", DATA)
    return web


def serve_index(web: Web, publisher: Publisher, content: bytes) -> None:
    web.serve("/catalogue/index.json", content)
    web.serve("/catalogue/index.json.sig", signatures.sign(content, publisher.key).encode())
