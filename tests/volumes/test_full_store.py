"""Stores of backups that are full, or go away, in the middle of a backup."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from provisioning.volumes.backups.backup_store import current
from provisioning.volumes.models import Message
from tests.support.backup_host import BLOCK, BackupHost, ClientLink, MemoryCopies
from tests.support.jobs import drain
from tests.support.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, s3_server
from tests.support.small_disk import small_disk
from tests.volumes.conftest import Town
from tests.volumes.test_backups import back_up, held

MIB = 1 << 20
ROOM = 12 * MIB
Grow = Callable[[], object]


@pytest.fixture(
    params=[
        pytest.param("folder", marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts")),
        "s3",
    ]
)
def grow(
    request: pytest.FixtureRequest, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Grow]:
    """A store with room for a part of the backup; what gives it more."""
    if request.param == "s3":
        with s3_server() as server:
            server.room = ROOM
            settings.BACKUP_STORE, settings.BACKUP_S3_BUCKET, settings.BACKUP_S3_ENDPOINT = (
                "s3",
                BUCKET,
                server.endpoint,
            )
            settings.BACKUP_S3_ACCESS_KEY, settings.BACKUP_S3_SECRET_KEY = ACCESS_KEY, SECRET_KEY
            yield lambda: setattr(server, "room", None)
        return
    with small_disk(tmp_path / "backups", str(ROOM)) as folder:
        settings.BACKUP_DIR = folder
        monkeypatch.setattr(
            "provisioning.volumes.backups.backup_store.folder.RESERVE", -(1 << 40)
        )  # it fills up while a part is written
        yield lambda: subprocess.run(["mount", "-o", "remount,size=64M", str(folder)], check=True)


@pytest.mark.slow
def test_a_backup_that_the_store_has_no_room_for_leaves_nothing_and_can_be_made_when_there_is(
    town: Town, tmp_path: Path, grow: Grow
) -> None:
    copies = MemoryCopies(tmp_path)
    town.agent.backups = BackupHost(ClientLink(town.host), copies)
    volume, source = town.make(1), random.Random(1)  # noqa: S311
    for block in range(20 * MIB // BLOCK):
        copies.write(volume.id, block, source.randbytes(BLOCK))
    before = held(town)
    backup = back_up(town, volume)
    assert (backup.status, town.fresh(volume).status, backup.digest) == ("error", "available", "")
    assert "no space left" in backup.fail_reason
    assert Message.objects.get().resource_type == "VOLUME_BACKUP"
    drain()
    assert current().folders() == []
    grow()
    again = back_up(town, volume)
    assert (again.status, town.fresh(volume).status) == ("available", "available")
    assert len(current().objects(str(again.id))) == again.object_count
    assert held(town)[0] == before[0] + 2
