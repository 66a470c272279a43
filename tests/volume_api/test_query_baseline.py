"""Lists of the Block Storage API cost the same number of queries at one item and at many.

``query_baseline.txt`` holds the numbers; when a change is meant, write it anew with ``WRITE_QUERY_BASELINE=1``.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from provisioning.volumes.models import (
    Attachment,
    Backup,
    Group,
    GroupSnapshot,
    GroupType,
    QosSpec,
    Snapshot,
    StoragePool,
    Transfer,
    Volume,
    VolumeType,
)
from tests.support.cast import Person
from tests.volume_api.conftest import V3, World, at

pytestmark = pytest.mark.django_db
BASELINE = Path(__file__).with_name("query_baseline.txt")
LISTS = {
    "volumes": "volumes",
    "volumes/detail": "volumes",
    "volumes/detail?all_tenants=1&with_count=true": "volumes",
    "snapshots": "snapshots",
    "snapshots/detail": "snapshots",
    "backups": "backups",
    "backups/detail": "backups",
    "attachments": "attachments",
    "attachments/detail": "attachments",
    "os-volume-transfer/detail": "transfers",
    "volume-transfers/detail": "transfers",
    "groups/detail?list_volume=True": "groups",
    "group_snapshots/detail": "group_snapshots",
    "types": "volume_types",
    "group_types": "group_types",
    "qos-specs": "qos_specs",
}


def grow(owner: Person, number: int) -> None:
    """Make so many of each kind, each with what belongs to it."""
    pool = StoragePool.objects.get()
    mine = {"project_id": owner.project_id, "user_id": owner.user_id}
    for _ in range(number):
        name = uuid.uuid4().hex
        qos = QosSpec.objects.create(name=name, specs={"total_iops_sec": "1"})
        kind = VolumeType.objects.create(name=name, qos_spec=qos)
        sort = GroupType.objects.create(name=name)
        group = Group.objects.create(**mine, group_type=sort, status="available")
        group.volume_types.add(kind)
        volume = Volume.objects.create(
            **mine, size_gb=1, name=name, volume_type=kind, pool=pool, group=group, status="in-use", metadata={"a": "b"}
        )
        together = GroupSnapshot.objects.create(**mine, group=group, group_type=sort, status="available")
        Snapshot.objects.create(**mine, volume=volume, size_gb=1, status="available", group_snapshot=together)
        Backup.objects.create(**mine, volume_id=volume.id, size_gb=1, status="available")
        Attachment.objects.create(
            project_id=owner.project_id,
            volume=volume,
            instance_id=uuid.uuid4(),
            status="attached",
            host=pool.hosts.get(),
        )
        Transfer.objects.create(id=uuid.uuid4(), source_project_id=owner.project_id, volume=volume)


def counted(world: World, least: int) -> dict[str, int]:
    """Return queries by list, of lists that have at least so many."""
    result = {}
    for path, name in LISTS.items():
        with CaptureQueriesContext(connection) as queries:
            answer = world.operator.get(f"{V3}/{path}", **at("3.70"))
        assert len(answer.json()[name]) >= least, path
        result[path] = len(queries)
    return result


@pytest.mark.slow
def test_lists_cost_what_the_baseline_says(world: World) -> None:
    grow(world.people.operator, 1)
    counted(world, 1)  # what is asked once in a process
    one = counted(world, 1)
    grow(world.people.operator, 9)
    many = counted(world, 10)
    assert {path: (one[path], many[path]) for path in one if many[path] > one[path]} == {}
    lines = [f"{path:<60} {one[path]:>3}" for path in sorted(one)]
    if os.environ.get("WRITE_QUERY_BASELINE"):
        BASELINE.write_text("\n".join(lines) + "\n")
    different = sorted(set(lines) ^ set(BASELINE.read_text().splitlines()))
    assert not different, "if it is meant: WRITE_QUERY_BASELINE=1"
