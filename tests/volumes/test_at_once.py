"""Several at the same moment, on both databases: one wins, nothing is counted twice, nothing is left."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable

import pytest

from provisioning.common.database import retry
from provisioning.common.errors import NovellaError, OverQuotaError
from provisioning.compute.launch.request import DiskRequest
from provisioning.identity.records import owner_locks
from provisioning.quotas.recounts import drift
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.limits import set_limit
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.models import Attachment, StoragePool, Volume
from provisioning.volumes.pools import placement
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create, Delete, Extend, VolumeDeletion
from provisioning.volumes.services.connections import attachments
from tests.core.test_parallel import in_threads
from tests.volumes.conftest import Town, build

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases("locks")]


@pytest.fixture
def town(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Town:
    return build(monkeypatch)


def answers(count: int, work: Callable[[int], object]) -> Counter[str]:
    result = in_threads(count, work)
    assert all(each is None or isinstance(each, NovellaError | str) for each in result), result
    return Counter("refused" if isinstance(each, NovellaError) else "done" for each in result)


def test_one_of_many_gets_the_volume(town: Town) -> None:
    volume = town.make()
    result = answers(6, lambda _: attachments.reserve(town.alice, volume.id, uuid.uuid4()) and None)
    assert (result, Attachment.objects.count()) == ({"done": 1, "refused": 5}, 1)
    assert town.fresh(volume).status == "reserved"


def test_deleted_or_attached_and_never_both(town: Town) -> None:
    for _ in range(3):
        volume = town.make()

        def work(index: int, key: uuid.UUID = volume.id) -> None:
            if index % 2:
                Delete.begin(town.alice, key, VolumeDeletion())
            else:
                attachments.reserve(town.alice, key, uuid.uuid4())

        assert answers(4, work) == {"done": 1, "refused": 3}
        there = town.fresh(volume)
        assert Attachment.objects.filter(volume=there).exists() is (there.status == "reserved")


def test_growing_stops_at_the_quota(town: Town) -> None:
    assert town.alice.project_id is not None
    volumes = [town.make() for _ in range(4)]
    set_limit(town.alice.project_id, "gigabytes", 10)
    result = answers(4, lambda index: Extend.begin(town.alice, volumes[index].id, 4) and None)
    assert result == {"done": 2, "refused": 2}
    town.agent.work()
    assert (usage_of(town.alice.project_id)["gigabytes"], StoragePool.objects.get().allocated_gb) == (10, 10)
    assert [str(each) for each in drift.find()] == []


def test_exactly_the_quota_of_volumes(town: Town) -> None:
    assert town.alice.project_id is not None
    set_limit(town.alice.project_id, "volumes", 5)

    def work(_: int) -> None:
        for _ in range(3):
            try:
                Create.begin(town.alice, VolumeRequest(size_gb=1))
            except OverQuotaError:
                continue

    assert answers(5, work) == {"done": 5}
    assert Volume.objects.count() == 5
    assert [str(each) for each in drift.find()] == []


def test_a_pool_is_never_filled_beyond_its_limit(town: Town) -> None:
    StoragePool.objects.update(total_gb=10, max_over_subscription_ratio=1.0)
    key = StoragePool.objects.get().id
    result = in_threads(8, lambda _: sum(placement.claim(key, 1) for _ in range(3)))
    assert (sum(each for each in result if isinstance(each, int)), StoragePool.objects.get().allocated_gb) == (10, 10)


def test_whoever_needs_a_volume_and_its_projects_quota_locks_the_volume_first(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database has no ring of waiting transactions to break."""
    broken: list[BaseException] = []
    locked, plain, judge = threading.Event(), owner_locks.lock_project, retry.broken_off
    volume = town.make()
    disk = DiskRequest("volume", "volume", str(volume.id))

    def slowly(project_id: uuid.UUID) -> None:
        plain(project_id)
        if not locked.is_set():
            locked.set()
            threading.Event().wait(0.5)

    def noted(error: BaseException) -> bool:
        broken.append(error)
        return judge(error)

    monkeypatch.setattr(owner_locks, "lock_project", slowly)
    monkeypatch.setattr(retry, "broken_off", noted)

    def work(index: int) -> None:
        if index == 0:
            town.cloud.launch(town.alice, disks=(disk,))
        elif locked.wait(60):
            Extend.begin(town.alice, volume.id, 2)

    launched, extended = in_threads(2, work)
    assert launched is None
    assert isinstance(extended, InvalidVolumeError)
    assert broken == []
