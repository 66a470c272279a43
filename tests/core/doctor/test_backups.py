"""The doctor compares backups with what is in their store."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from provisioning.doctor.checks.backups import backups
from provisioning.volumes.backups.backup_data import MANIFEST
from provisioning.volumes.backups.backup_store import current
from provisioning.volumes.models import Backup

pytestmark = pytest.mark.django_db


@pytest.mark.doctor_finds("backups")
def test_backups_without_data_and_data_without_a_backup_are_found(settings: Any, tmp_path: Path) -> None:
    settings.BACKUP_DIR = tmp_path / "backups"
    assert list(backups()) == []
    made = [
        Backup.objects.create(project_id=uuid.uuid4(), volume_id=uuid.uuid4(), size_gb=1, status=status)
        for status in ("available", "available", "creating", "error")
    ]
    stranger, half = uuid.uuid4(), uuid.uuid4()
    for key, name in ((made[0].id, MANIFEST), (stranger, MANIFEST), (half, "00000000-0")):
        current().put(str(key), name, b"{}")
    assert [(result.severity, result.subject) for result in backups()] == [
        ("error", f"backup {made[1].id}"),
        ("note", f"backup {stranger}"),
    ]
    settings.BACKUP_DIR = Path("/proc/nothing")
    assert [result.severity for result in backups()] == ["error", "error"]
