"""Data of deleted volumes that clones need is counted: in the pool, and in the quota of the project that made it."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compute_agent.contract.volume import MOST_KEPT
from provisioning.common.errors import OverQuotaError
from provisioning.common.values.numbers import GIB
from provisioning.doctor.checks.volumes import deleted_volumes, pool_counters
from provisioning.identity.models import Project
from provisioning.identity.services.projects import delete_project
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.limits import set_limit
from provisioning.quotas.services.repair import examine
from provisioning.volumes.models import DeletedData, PoolHost, StoragePool, Volume
from provisioning.volumes.selectors.gauges import of_project
from provisioning.volumes.services import Delete, VolumeDeletion
from provisioning.volumes.services.catalogue.pools import forget_pool
from provisioning.volumes.services.catalogue.types import create_type, delete_type, update_type
from tests.support.scripted_pool import ScriptedPool
from tests.volumes.conftest import Town

pytestmark = pytest.mark.both_databases


def delete(town: Town, volume: Volume, kept: int = 0) -> None:
    """Delete a volume of which its host says that clones need so many bytes."""
    town.pool.kept = (town.pool.kept or {}) | ({str(volume.id): kept} if kept else {})
    Delete.begin(town.alice, volume.id, VolumeDeletion())
    town.agent.work()


def held(town: Town) -> tuple[int, int]:
    """Usage of the project's quota and of the pool, in GiB."""
    assert examine() == []
    assert list(pool_counters()) == []
    return usage_of(project_of(town))["gigabytes"], StoragePool.objects.get().allocated_gb


def project_of(town: Town) -> uuid.UUID:
    assert town.alice.project_id is not None
    return town.alice.project_id


@pytest.mark.slow
def test_rounds_of_clone_and_delete_end_at_the_quota(town: Town) -> None:
    """Each round leaves data that nobody's volume has; what is left counts from the moment of the deletion."""
    set_limit(project_of(town), "gigabytes", 12)
    volume = town.make(1)
    for _ in range(11):
        clone = town.make(1, source_volume_id=volume.id)
        delete(town, volume, kept=GIB)
        volume = clone
    with pytest.raises(OverQuotaError):
        town.make(1, source_volume_id=volume.id)
    assert held(town) == (12, 12)
    assert usage_of(project_of(town))["volumes"] == 1


@pytest.mark.both_databases("locks")
def test_it_counts_for_the_type_of_its_volume(town: Town) -> None:
    """A limit of one type is passed by no clones either; the type can be renamed and deleted."""
    fast = create_type("fast")
    set_limit(project_of(town), "gigabytes_fast", 4)
    volume = town.make(2, volume_type="fast")
    delete(town, volume, kept=3 * GIB)
    assert usage_of(project_of(town))["gigabytes_fast"] == 3
    with pytest.raises(OverQuotaError):
        town.make(2, volume_type="fast")
    update_type(fast, {"name": "faster"})
    town.pool.kept = {str(volume.id): 2 * GIB}
    town.agent.measured()
    assert usage_of(project_of(town))["gigabytes_faster"] == 2
    assert held(town) == (2, 2)
    delete_type(fast)
    assert held(town) == (2, 2)
    assert usage_of(project_of(town)).get("gigabytes_faster", 0) == 0


@pytest.mark.slow
def test_audits_count_what_is_there_now(town: Town) -> None:
    volume, clone = town.make(4), town.make(4)
    delete(town, volume, kept=3 * GIB - 1)
    assert held(town) == (4 + 3, 4 + 3)
    for size, counted in ((3 * GIB + 1, 4), (GIB, 1), (0, 1)):  # 0: the pool could not measure it
        town.pool.kept = {str(volume.id): size}
        town.agent.measured()
        assert held(town) == (4 + counted, 4 + counted)
    town.pool.kept = None  # an agent that does not say
    town.agent.measured()
    assert held(town) == (5, 5)
    delete(town, clone)
    town.pool.kept = {}
    town.agent.measured()
    assert held(town) == (0, 0)


def locked_in_turn(queries: CaptureQueriesContext) -> list[str]:
    """Return which rows were changed in turn: of pools, and of the counters of quotas."""
    written = [each["sql"] for each in queries if each["sql"].startswith("UPDATE")]
    tables = ["pool" if 'SET "allocated_gb"' in sql else sql.split('"')[1] for sql in written]
    assert "quotas_quotausage" not in tables[tables.index("pool") :]
    return tables


@pytest.mark.slow
def test_an_audit_counts_in_every_quota_before_any_pool(town: Town) -> None:
    """Whoever makes a volume locks the counters of a project, then the pool."""
    other = ScriptedPool(name="other", kept={})
    volumes = [town.make(4), town.make(4)]
    for volume in volumes:
        delete(town, volume, kept=GIB)
    town.agent.serve(other)
    moved = str(volumes[1].id)
    DeletedData.objects.filter(data_id=moved).update(pool_id=other.id)
    StoragePool.objects.filter(id=other.id).update(allocated_gb=1)
    StoragePool.objects.filter(id=town.pool.id).update(allocated_gb=1)
    town.pool.kept, other.kept = {str(volumes[0].id): 3 * GIB}, {moved: 3 * GIB}
    with CaptureQueriesContext(connection) as queries:
        town.agent.measured()
    tables = locked_in_turn(queries)
    assert (tables.count("quotas_quotausage"), tables.count("pool")) == (2, 2)
    assert list(StoragePool.objects.values_list("allocated_gb", flat=True)) == [3, 3]


def test_a_deletion_counts_in_every_quota_before_its_pool(town: Town) -> None:
    volume = town.make(4)
    with CaptureQueriesContext(connection) as queries:
        delete(town, volume, kept=GIB)
    assert locked_in_turn(queries).count("quotas_quotausage") >= 2
    assert held(town) == (1, 1)


@pytest.mark.slow
def test_an_audit_from_before_the_deletion_loses_no_owner(town: Town) -> None:
    volume = town.make(2)
    delete(town, volume, kept=GIB)
    kept, town.pool.kept = town.pool.kept, {}
    town.agent.measured()
    assert held(town) == (0, 0)
    town.pool.kept = kept
    town.agent.measured()
    assert held(town) == (1, 1)
    town.pool.kept = {}
    town.agent.measured()
    DeletedData.objects.update(absent_since=DeletedData.objects.get().created_at - timedelta(hours=2))
    town.agent.measured()
    assert not DeletedData.objects.exists()


def test_it_counts_past_the_limit_and_nothing_more_is_made(town: Town) -> None:
    volume = town.make(1)
    set_limit(project_of(town), "gigabytes", 1)
    delete(town, volume, kept=5 * GIB)
    assert held(town) == (5, 5)
    with pytest.raises(OverQuotaError):
        town.make(1)


def test_data_that_no_record_knows_counts_in_the_pool_alone(town: Town) -> None:
    town.pool.kept = {str(uuid.uuid4()): 2 * GIB, "nonsense": GIB}
    town.agent.measured()
    assert held(town) == (0, 2)
    assert "of unknown projects 2 GiB" in "".join(each.sentence for each in deleted_volumes())


@pytest.mark.slow
def test_no_host_makes_it_larger_than_its_pool(town: Town) -> None:
    town.pool.kept = {str(uuid.uuid4()): 1 << 62} | {str(uuid.uuid4()): 1 for _ in range(MOST_KEPT + 5)}
    town.agent.measured()
    assert DeletedData.objects.count() == MOST_KEPT
    assert max(DeletedData.objects.values_list("size_gb", flat=True)) == town.pool.total_gb


@pytest.mark.slow
def test_what_a_full_answer_leaves_out_is_not_absent(town: Town) -> None:
    volume = town.make(2)
    delete(town, volume, kept=GIB)
    town.pool.total_gb = 10_000
    town.pool.kept = {str(uuid.uuid4()): 2 * GIB for _ in range(MOST_KEPT)}
    town.agent.measured()
    assert usage_of(project_of(town))["gigabytes"] == 1


@pytest.mark.slow
def test_only_the_host_whose_word_counts_is_believed(town: Town) -> None:
    volume = town.make(1)
    delete(town, volume, kept=GIB)
    town.pool.shared = True
    town.agent.measured()
    other = town.cloud.add_host("other")
    other.serve(town.pool)
    town.pool.kept = {}
    other.measured()
    assert held(town) == (1, 1)


@pytest.mark.slow
def test_a_deleted_project_leaves_it_to_the_pool(town: Town) -> None:
    delete(town, town.make(1), kept=GIB)
    delete_project(Project.objects.get(id=project_of(town)))
    assert StoragePool.objects.get().allocated_gb == 1
    assert (examine(), list(pool_counters())) == ([], [])
    town.agent.measured()
    assert StoragePool.objects.get().allocated_gb == 1


def test_a_forgotten_pool_gives_it_back(town: Town) -> None:
    delete(town, town.make(1), kept=GIB)
    PoolHost.objects.update(serving=False)
    forget_pool(StoragePool.objects.get())
    assert usage_of(project_of(town))["gigabytes"] == 0
    assert examine() == []


def test_the_doctor_and_the_project_see_it(town: Town) -> None:
    delete(town, town.make(3), kept=2 * GIB)
    assert of_project(project_of(town)) == 2
    (finding,) = deleted_volumes()
    assert (finding.severity, finding.subject) == ("note", "pool local")
    assert f"{project_of(town).hex} 2 GiB" in finding.sentence
