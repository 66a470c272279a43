"""Volumes that are moved to other pools and given other types, in use or not."""

from __future__ import annotations

import base64

import pytest

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError, OverQuotaError
from provisioning.hosts.models import HostCommand
from provisioning.quotas.models import QuotaUsage
from provisioning.quotas.recounts import drift
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.limits import set_limit
from provisioning.quotas.services.repair import repair
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.models import Attachment, Message, QosSpec, StoragePool, TypeEncryption, Volume, VolumeType
from provisioning.volumes.records.keys import encryption_of
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import (
    Create,
    CreateSnapshot,
    Migrate,
    Retype,
    RetypeRequest,
    SnapshotRequest,
    reset_status,
    swapped,
)
from provisioning.volumes.services.catalogue.qos import delete_keys, update_qos_spec
from provisioning.volumes.upkeep.upkeep import delete_moved_data
from tests.support.jobs import drain
from tests.support.scripted_pool import ScriptedPool
from tests.volumes.conftest import Town

pytestmark = pytest.mark.slow


@pytest.fixture
def other(town: Town) -> ScriptedPool:
    """Another host's pool, smaller so that it is not chosen."""
    agent = town.cloud.add_host("nadel")
    return agent.serve(ScriptedPool(name="fast", total_gb=10, free_gb=10, capabilities={"ssd": "true"}))


def rest(town: Town) -> None:
    while sum(agent.work() for agent in town.cloud.agents.values()):
        pass


def allocated() -> dict[str, int]:
    return dict(StoragePool.objects.values_list("name", "allocated_gb"))


def test_a_volume_that_nobody_has_is_fetched(town: Town, other: ScriptedPool, operator: RequestContext) -> None:
    volume = town.make(2)
    with pytest.raises(ForbiddenError):
        Migrate.begin(town.alice, volume.id, StoragePool.objects.get(name="fast").id)
    Migrate.begin(operator, volume.id, StoragePool.objects.get(name="fast").id)
    assert (town.fresh(volume).status, allocated()) == ("maintenance", {"local": 2, "fast": 2})
    rest(town)
    moved = town.fresh(volume)
    assert (moved.status, moved.migration_status, str(moved.pool)) == ("available", "success", "fast")
    assert (town.pool.volumes, list(other.volumes), town.pool.clients) == ({}, [str(moved.data_id)], {})
    assert (allocated(), Volume.objects.count()) == ({"local": 0, "fast": 2}, 1)
    assert [str(difference) for difference in drift.find()] == []


def test_a_fetch_that_fails_leaves_it_as_it_was(town: Town, other: ScriptedPool, operator: RequestContext) -> None:
    volume = town.make(2)
    town.cloud.agents["nadel"].failing["fetch_volume_request"] = "Torn."
    Migrate.begin(operator, volume.id, StoragePool.objects.get(name="fast").id)
    rest(town)
    assert (town.fresh(volume).status, town.fresh(volume).migration_status) == ("available", "error")
    assert (town.pool.volumes, other.volumes, town.pool.clients) == ({str(volume.id): 2}, {}, {})
    assert (allocated(), Volume.objects.count()) == ({"local": 2, "fast": 0}, 1)
    assert "Torn." in Message.objects.get().text


def test_what_a_move_has_left_and_a_host_refused_to_delete_is_deleted_later(
    town: Town, other: ScriptedPool, operator: RequestContext
) -> None:
    volume = town.make(2)
    town.agent.failing["delete_volume_request"] = "A server on this host still has the volume open."
    Migrate.begin(operator, volume.id, StoragePool.objects.get(name="fast").id)
    rest(town)
    hidden = Volume.objects.get(migration_of=volume.id)
    assert (town.fresh(volume).status, hidden.status) == ("available", "error_deleting")
    delete_moved_data()
    rest(town)
    assert (town.pool.volumes, Volume.objects.count(), allocated()) == ({}, 1, {"local": 0, "fast": 2})


@pytest.mark.parametrize("failed", ["", "The guest has crashed."])
def test_a_guest_goes_over_while_it_runs(
    town: Town, other: ScriptedPool, operator: RequestContext, failed: str
) -> None:
    volume = town.make(2)
    old = town.attach(volume)
    Migrate.begin(operator, volume.id, StoragePool.objects.get(name="fast").id)
    rest(town)
    ((_, new_id),) = [each for each in town.guests.notified if each[0] == "swap"]
    swapped(new_id, failed=failed)
    rest(town)
    (there,) = Attachment.objects.filter(volume_id=volume.id)
    after = town.fresh(volume)
    assert (after.status, there.status, there.instance_id) == ("in-use", "attached", old.instance_id)
    assert there.id == (old.id if failed else new_id)
    assert (str(after.pool), after.migration_status) == (("local", "error") if failed else ("fast", "success"))
    assert (len(town.pool.volumes), len(other.volumes)) == ((1, 0) if failed else (0, 1))
    assert allocated() == ({"local": 2, "fast": 0} if failed else {"local": 0, "fast": 2})
    assert Volume.objects.count() == 1


def test_another_type_in_place_changes_the_limits_of_the_guest(town: Town) -> None:
    # Such are refused today, and cost no other limit.
    stored_before = {"write_iops_sec": "banana", "read_iops_sec": "9", "read_bytes_sec_max": "9", "nonsense": "1"}
    specs = {"total_iops_sec_per_gb": "10", **stored_before}
    spec = QosSpec.objects.create(name="slow", consumer="front-end", specs=specs)
    slow = VolumeType.objects.create(name="slow (50 %)", qos_spec=spec)
    volume = town.make(3)
    attachment = town.attach(volume)
    assert town.disk(attachment).iotune == {}
    Retype.begin(town.alice, volume.id, RetypeRequest(slow.name))
    assert (town.disk(attachment).iotune, town.fresh(volume).status) == ({"total_iops_sec": 30}, "in-use")
    assert town.guests.notified.count(("changed", volume.id)) == 1
    delete_keys(spec, ["total_iops_sec_per_gb", *stored_before])
    update_qos_spec(spec, {"read_bytes_sec": "4096"})
    assert drain() > 0
    assert town.guests.notified.count(("changed", volume.id)) == 3
    assert town.disk(attachment).iotune == {"read_bytes_sec": 4096}
    assert town.alice.project_id is not None
    assert usage_of(town.alice.project_id)["gigabytes_slow (50 %)"] == 3
    assert [str(difference) for difference in drift.find()] == []
    with pytest.raises(InvalidInputError):
        Retype.begin(town.alice, volume.id, RetypeRequest(slow.name))


def test_snapshots_count_for_the_type_that_their_volume_has_now(town: Town) -> None:
    project = town.alice.project_id
    assert project is not None
    for name in ("bronze", "gold"):
        VolumeType.objects.create(name=name)
    volume = town.make(2, volume_type="bronze")
    CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest())
    town.agent.work()
    set_limit(project, "gigabytes_gold", 3)
    with pytest.raises(OverQuotaError):
        Retype.begin(town.alice, volume.id, RetypeRequest("gold"))
    assert (str(town.fresh(volume).volume_type), [str(difference) for difference in drift.find()]) == ("bronze", [])
    set_limit(project, "gigabytes_gold", 4)
    Retype.begin(town.alice, volume.id, RetypeRequest("gold"))
    used = usage_of(project)
    assert [used[name] for name in ("snapshots_gold", "gigabytes_gold", "volumes_gold")] == [1, 4, 1]
    assert [used.get(name, 0) for name in ("snapshots_bronze", "gigabytes_bronze", "volumes_bronze")] == [0, 0, 0]
    assert [str(difference) for difference in drift.find()] == []
    QuotaUsage.objects.filter(resource__endswith="_gold").delete()
    assert len(repair()) == 3
    assert [str(difference) for difference in drift.find()] == []


def test_a_type_that_another_pool_offers_moves_the_volume_on_demand(town: Town, other: ScriptedPool) -> None:
    VolumeType.objects.create(name="ssd", extra_specs={"ssd": "<is> True"})
    volume = town.make(2)
    with pytest.raises(InvalidInputError, match="never"):
        Retype.begin(town.alice, volume.id, RetypeRequest("ssd"))
    Retype.begin(town.alice, volume.id, RetypeRequest("ssd", migration_policy="on-demand"))
    assert town.fresh(volume).status == "retyping"
    assert [str(difference) for difference in drift.find()] == []
    rest(town)
    after = Volume.objects.select_related("pool", "volume_type").get()
    assert (after.status, str(after.pool), str(after.volume_type)) == ("available", "fast", "ssd")
    assert [str(difference) for difference in drift.find()] == []


def test_a_key_of_its_own_is_kept_sealed(town: Town) -> None:
    secret = VolumeType.objects.create(name="secret")
    TypeEncryption.objects.create(volume_type=secret, provider="luks")
    volume = Create.begin(town.alice, VolumeRequest(size_gb=1, volume_type="secret"))
    result = encryption_of(volume)
    assert result is not None
    assert len(base64.b64decode(result.key).decode()) >= 32, "QEMU opens LUKS with nothing but text in UTF-8"
    assert result.key not in str(list(HostCommand.objects.values())) + volume.encryption_key
    (command,) = town.agent.take()
    assert command.body.volume.encryption == result  # type: ignore[union-attr]
    VolumeType.objects.create(name="plain")
    with pytest.raises(InvalidVolumeError):
        Retype.begin(town.alice, volume.id, RetypeRequest("plain"))


@pytest.mark.parametrize("said", [{"status": "available"}, {"migration_status": "none"}])
def test_an_operators_reset_ends_the_move(
    town: Town, other: ScriptedPool, operator: RequestContext, said: dict[str, str]
) -> None:
    VolumeType.objects.create(name="ssd", extra_specs={"ssd": "true"})
    volume = town.make(2)
    Retype.begin(town.alice, volume.id, RetypeRequest("ssd", migration_policy="on-demand"))
    town.agent.work()
    reset_status(operator, volume.id, **said)
    assert (town.fresh(volume).status, [str(difference) for difference in drift.find()]) == ("available", [])
    attachment = town.attach(volume)
    rest(town)
    after = town.fresh(volume)
    assert (after.status, attachment.status, str(after.pool), after.volume_type) == (
        "in-use",
        "attached",
        "local",
        None,
    )
    assert after.migration_status == ("" if "migration_status" in said else "error")
    assert (Volume.objects.count(), allocated(), other.volumes) == (1, {"local": 2, "fast": 0}, {})
    assert town.alice.project_id is not None
    assert usage_of(town.alice.project_id).get("gigabytes_ssd", 0) == 0
