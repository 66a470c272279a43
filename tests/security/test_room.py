"""A member's upload must not fill the disk that the database is on."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from provisioning.common.errors import UnavailableError
from provisioning.images import services
from provisioning.images.data import store
from provisioning.images.models import Image
from tests.support.cast import Person

PIECE = b"x" * (1 << 20)


class Disk:
    """A disk with so many bytes left as the test says; what is written is taken from it."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, path: Any) -> Any:
        return SimpleNamespace(f_bavail=max(self.left, 0), f_frsize=1)


def _pieces(disk: Disk, count: int) -> Iterator[bytes]:
    for _ in range(count):
        disk.left -= len(PIECE)
        yield PIECE


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("announced", [True, False])
def test_an_upload_leaves_room(alice: Person, monkeypatch: pytest.MonkeyPatch, announced: bool) -> None:
    image = services.create(alice.context, name="big", disk_format="raw", container_format="bare", visibility="private")
    disk = Disk(store.RESERVE + 4 * len(PIECE))
    monkeypatch.setattr(store, "statvfs", disk)
    size = 8 * len(PIECE) if announced else None
    with pytest.raises(UnavailableError):
        services.upload(alice.context, image.id, _pieces(disk, 8), expected_size=size)
    assert disk.left >= store.RESERVE - 2 * len(PIECE)
    image.refresh_from_db()
    assert image.status == Image.Status.QUEUED
    assert not store.part_of(image.id).exists()
