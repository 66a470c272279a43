"""An image store of each test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from provisioning.images import services
from provisioning.images.models import Image
from tests.support.cast import Person

MakeImage = Callable[..., Image]


@pytest.fixture(autouse=True)
def store(settings: pytest.FixtureRequest, tmp_path: Path) -> Path:
    settings.IMAGE_DIR = tmp_path / "images"  # type: ignore[attr-defined]
    return tmp_path / "images"


@pytest.fixture
def make(alice: Person) -> MakeImage:
    """Make a record; with ``data`` an active image."""

    def make(person: Person = alice, data: bytes | None = None, **values: object) -> Image:
        values = {"name": "picture", "disk_format": "raw", "container_format": "bare", **values}
        image = services.create(person.context, **values)
        return image if data is None else services.upload(person.context, image.id, [data])

    return make


def files(store: Path) -> list[str]:
    return sorted(path.name for path in store.iterdir()) if store.exists() else []
