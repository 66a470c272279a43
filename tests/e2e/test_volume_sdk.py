"""openstacksdk's block storage proxy against a running cloud: every method is used here or listed with a reason."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from openstack.block_storage.v3 import _proxy as volume_proxy
from openstack.block_storage.v3.cluster import Cluster
from openstack.connection import Connection

from tests.e2e.sdk_proxies import NOT_CALLED_VOLUME, Spy, connect, methods, refused
from tests.support.one_machine import OneMachine, wait_for

pytestmark = [
    pytest.mark.deep,
    pytest.mark.compat,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]


@pytest.fixture
def conn(simulated: OneMachine) -> Iterator[Connection]:
    with connect(simulated, block_storage_default_microversion="3.70") as sdk:
        yield sdk


def test_block_storage_proxy(conn: Connection) -> None:
    volume = Spy(conn.block_storage)
    project = conn.current_project_id
    kind = types(volume, project)
    qos(volume, kind)
    disk = volumes(volume)
    snapshots(volume, disk)
    backups(volume, disk)
    attachments(volume, disk)
    actions(volume, disk, kind)
    transfers(volume, disk)
    groups(volume, kind)
    quotas(volume, project)
    services(volume)
    look_around(volume)
    messages(volume)
    volume.delete_volume(disk, ignore_missing=False)
    volume.wait_for_delete(disk, interval=0.2)
    assert methods(volume_proxy.Proxy) - volume.used == set(NOT_CALLED_VOLUME)


def until(volume: Spy, noun: str, made: Any, status: str = "available") -> Any:
    """Wait until it has a status; returns it as it is then."""

    def there() -> Any:
        result = getattr(volume, f"get_{noun}")(made.id)
        assert result.status == status or "error" not in result.status, result
        return result if result.status == status else None

    return wait_for(f"{noun} is {status}", there)


def gone(volume: Spy, noun: str, made: Any) -> None:
    wait_for(f"{noun} is gone", lambda: getattr(volume, f"find_{noun}")(made.id) is None)


def types(volume: Spy, project: str) -> Any:
    kind = volume.create_type(name="sdk-type", description="x", is_public=False)
    assert volume.update_type(kind, description="y").description == "y"
    assert volume.find_type("sdk-type", ignore_missing=False).id == volume.get_type(kind.id).id == kind.id
    assert kind.id in {row.id for row in volume.types()}
    assert volume.update_type_extra_specs(kind, a="b", c="d").extra_specs["c"] == "d"
    volume.delete_type_extra_specs(kind, ["c"])
    assert volume.get_type(kind.id).extra_specs == {"a": "b"}
    volume.add_type_access(kind, project)
    assert [row["project_id"] for row in volume.get_type_access(kind)] == [project]
    volume.remove_type_access(kind, project)
    made = volume.create_type_encryption(kind, provider="luks", control_location="front-end", key_size=256)
    assert volume.get_type_encryption(kind).provider == "luks"
    assert volume.update_type_encryption(made, volume_type=kind, key_size=512).key_size == 512
    volume.delete_type_encryption(volume_type=kind, ignore_missing=False)
    refused(404, lambda: volume.get_type("nothing"))
    plain = volume.create_type(name="sdk-plain")
    volume.set_default_type(project, plain.id)
    assert volume.show_default_type(project).volume_type_id == plain.id
    assert project in {row.project_id for row in volume.default_types()}
    volume.unset_default_type(project)
    refused(404, lambda: volume.show_default_type(project))
    volume.delete_type(kind, ignore_missing=False)
    return plain


def qos(volume: Spy, kind: Any) -> None:
    made = volume.create_qos_spec(name="sdk-qos", consumer="front-end", read_iops_sec="100", write_iops_sec="50")
    assert volume.find_qos_spec("sdk-qos", ignore_missing=False).id == volume.get_qos_spec(made.id).id == made.id
    volume.update_qos_spec(made, read_iops_sec="200")
    volume.delete_qos_spec_metadata(made, ["write_iops_sec"])
    assert [row.specs for row in volume.qos_specs() if row.id == made.id] == [{"read_iops_sec": "200"}]
    volume.associate_qos_spec(made, kind.id)
    assert [row.id for row in volume.qos_spec_associations(made)] == [kind.id]
    refused(400, lambda: volume.delete_qos_spec(made, ignore_missing=False))
    volume.disassociate_qos_spec(made, kind.id)
    volume.associate_qos_spec(made, kind.id)
    volume.disassociate_all_qos_spec(made)
    volume.delete_qos_spec(made, ignore_missing=False)


def volumes(volume: Spy) -> Any:
    made = volume.create_volume(name="sdk-volume", size=1, description="x", metadata={"a": "b"})
    made = until(volume, "volume", made)
    assert volume.find_volume("sdk-volume", ignore_missing=False).id == made.id
    assert [row.id for row in volume.volumes(name="sdk-volume")] == [made.id]
    assert [row.id for row in volume.volumes(details=False, name="sdk-volume", all_projects=True)] == [made.id]
    assert volume.update_volume(made, description="y").description == "y"
    assert volume.get_volume_metadata(made).metadata == volume.fetch_volume_metadata(made).metadata == {"a": "b"}
    volume.set_volume_metadata(made, c="d", e="f")
    volume.delete_volume_metadata(made, ["e"])
    assert volume.get_volume(made.id).metadata == {"a": "b", "c": "d"}
    volume.set_volume_image_metadata(made, os_distro="debian")
    volume.delete_volume_image_metadata(made, ["os_distro"])
    refused(404, lambda: volume.get_volume("6f3b1d0e-0000-4000-8000-000000000000"))
    refused(400, lambda: volume.create_volume(name="x", size=0))
    assert volume.summary(True).total_count >= 1
    return made


def snapshots(volume: Spy, disk: Any) -> None:
    made = until(volume, "snapshot", volume.create_snapshot(volume_id=disk.id, name="sdk-snapshot"))
    assert volume.find_snapshot("sdk-snapshot", ignore_missing=False).id == made.id
    assert [row.id for row in volume.snapshots(volume_id=disk.id)] == [made.id]
    assert volume.update_snapshot(made, description="y").description == "y"
    volume.set_snapshot_metadata(made, a="b", c="d")
    volume.delete_snapshot_metadata(made, ["c"])
    assert volume.get_snapshot_metadata(made).metadata == volume.fetch_snapshot_metadata(made).metadata == {"a": "b"}
    volume.revert_volume_to_snapshot(disk, made)
    until(volume, "volume", disk)
    until(volume, "snapshot", made)
    for reset in (volume.reset_snapshot_status, volume.reset_snapshot):
        reset(made, "error")
        assert volume.get_snapshot(made.id).status == "error"
        volume.reset_snapshot_status(made, "available")
    refused(400, lambda: volume.set_snapshot_status(made, "available", "100%"))
    pool = volume.get_volume(disk.id).host
    volume.unmanage_snapshot(made)
    gone(volume, "snapshot", made)
    (left,) = volume.manageable_snapshots(host=pool)
    made = until(volume, "snapshot", volume.manage_snapshot(volume_id=disk.id, ref=left.reference, name="sdk-snapshot"))
    assert list(volume.manageable_snapshots(host=pool)) == []
    refused(400, lambda: volume.manage_snapshot(volume_id=disk.id, ref={"source-name": "x"}, name="x"))
    refused(400, lambda: volume.delete_volume(disk, ignore_missing=False))
    volume.delete_snapshot(made, ignore_missing=False)
    gone(volume, "snapshot", made)


def backups(volume: Spy, disk: Any) -> None:
    made = until(volume, "backup", volume.create_backup(volume_id=disk.id, name="sdk-backup", is_incremental=False))
    assert volume.find_backup("sdk-backup", ignore_missing=False).id == made.id
    assert [row.id for row in volume.backups(volume_id=disk.id)] == [made.id]
    assert volume.update_backup(made, description="y").description == "y"
    second = until(volume, "backup", volume.create_backup(volume_id=disk.id, name="sdk-second", is_incremental=True))
    assert second.is_incremental
    restored = volume.restore_backup(made, name="sdk-restored")
    other = until(volume, "volume", volume.get_volume(restored["volume_id"]))
    assert other.name == "sdk-restored"
    until(volume, "backup", made)
    for reset in (volume.reset_backup_status, volume.reset_backup):
        reset(made, "available")
        assert volume.get_backup(made.id).status == "available"
    record = volume.export_record(made).json()["backup-record"]
    assert volume.export_backup(made)
    refused(405, lambda: volume.import_backup(record["backup_service"], "x"))  # asks for another address
    for each in (second, made):
        volume.delete_backup(each, ignore_missing=False)
        gone(volume, "backup", each)
    volume.delete_volume(other, ignore_missing=False)


def attachments(volume: Spy, disk: Any) -> None:
    here = {"host": volume.get_volume(disk.id).host.partition("@")[0]}
    made = volume.create_attachment(disk.id)
    assert volume.get_attachment(made.id).volume_id == disk.id
    assert made.id in {row.id for row in volume.attachments()}
    refused(400, lambda: volume.update_attachment(made, connector={"host": "elsewhere"}))
    assert volume.update_attachment(made, connector=here).status == "attaching"
    wait_for("its connection is there", lambda: volume.get_attachment(made.id).connection_info)
    volume.complete_attachment(made)
    until(volume, "volume", disk, "in-use")
    volume.delete_attachment(made, ignore_missing=False)
    until(volume, "volume", disk)
    volume.reserve_volume(disk)
    assert volume.get_volume(disk.id).status == "attaching"
    assert volume.init_volume_attachment(disk, here)["driver_volume_type"] == "nbd"
    volume.terminate_volume_attachment(disk, here)
    until(volume, "volume", disk)
    volume.reserve_volume(disk)
    volume.unreserve_volume(disk)
    until(volume, "volume", disk)
    volume.attach_volume(disk, "/dev/vdb", instance=str(uuid.uuid4()))
    (attached,) = until(volume, "volume", disk, "in-use").attachments
    volume.begin_volume_detaching(disk)
    until(volume, "volume", disk, "detaching")
    volume.abort_volume_detaching(disk)
    until(volume, "volume", disk, "in-use")
    volume.detach_volume(disk, attached["attachment_id"])
    until(volume, "volume", disk)


def actions(volume: Spy, disk: Any, kind: Any) -> None:
    volume.extend_volume(disk, 2)
    wait_for("it is larger", lambda: volume.get_volume(disk.id).size == 2)
    until(volume, "volume", disk)
    volume.set_volume_bootable_status(disk, True)
    assert volume.get_volume(disk.id).is_bootable
    volume.set_volume_readonly(disk, True)
    volume.set_volume_readonly(disk, False)
    volume.reset_volume_status(disk, status="error")
    assert volume.get_volume(disk.id).status == "error"
    volume.reset_volume_status(disk, status="available", attach_status="detached", migration_status="none")
    volume.retype_volume(disk, kind.id)
    wait_for("it is of the type", lambda: volume.get_volume(disk.id).volume_type == "sdk-plain")
    until(volume, "volume", disk)
    here = volume.get_volume(disk.id).host
    other = next(row.name for row in volume.backend_pools() if row.name != here)
    volume.migrate_volume(disk, host=other)
    wait_for("it has moved", lambda: volume.get_volume(disk.id).host == other)
    until(volume, "volume", disk)
    refused(400, lambda: volume.manage_volume(host=other, ref={"source-name": "x"}, name="x"))
    spare = volume.create_volume(size=1, name="sdk-spare")
    pool = until(volume, "volume", spare).host
    volume.unmanage_volume(spare)
    wait_for("it is nobody's", lambda: volume.find_volume("sdk-spare", ignore_missing=True) is None)
    (result,) = volume.manageable_volumes(host=pool)
    adopted = volume.manage_volume(host=pool, ref=result.reference, name="sdk-adopted")
    until(volume, "volume", adopted)
    volume.delete_volume(adopted)
    refused(501, lambda: volume.complete_volume_migration(disk, disk.id))
    image = volume.upload_volume_to_image(disk, "sdk-image", disk_format="raw", visibility="private")
    assert image["image_name"] == "sdk-image"
    until(volume, "volume", disk)
    volume.create_image("sdk-other-image", disk.id, False, "bare", "raw", False, 60)
    until(volume, "volume", disk)
    refused(404, lambda: volume.complete_volume_extend(disk))


def transfers(volume: Spy, disk: Any) -> None:
    made = volume.create_transfer(volume_id=disk.id, name="sdk-transfer")
    assert volume.find_transfer("sdk-transfer", ignore_missing=False).id == volume.get_transfer(made.id).id == made.id
    assert [row.id for row in volume.transfers()] == [made.id]
    volume.delete_transfer(made, ignore_missing=False)
    made = volume.create_transfer(volume_id=disk.id, name="sdk-transfer")
    refused(400, lambda: volume.accept_transfer(made.id, "wrong"))
    volume.accept_transfer(made.id, made.auth_key)
    until(volume, "volume", disk)


def groups(volume: Spy, kind: Any) -> None:
    sort = volume.create_group_type(name="sdk-group-type", description="x")
    assert volume.find_group_type("sdk-group-type", ignore_missing=False).id == sort.id
    assert volume.get_group_type(sort.id).name == "sdk-group-type"
    assert sort.id in {row.id for row in volume.group_types()}
    assert volume.update_group_type(sort, description="y").description == "y"
    volume.create_group_type_group_specs(sort, {"consistent_group_snapshot_enabled": "<is> False", "a": "b"})
    assert volume.fetch_group_type_group_specs(sort).group_specs["a"] == "b"
    assert volume.get_group_type_group_specs_property(sort, "a") == "b"
    volume.update_group_type_group_specs_property(sort, "a", "c")
    volume.delete_group_type_group_specs_property(sort, "a")
    made = volume.create_group(name="sdk-group", group_type=sort.id, volume_types=[kind.id], availability_zone="nova")
    made = until(volume, "group", made)
    assert volume.find_group("sdk-group", ignore_missing=False).id == made.id
    assert [row.id for row in volume.groups()] == [made.id]
    volume.update_group(made, description="y")
    member = volume.create_volume(name="sdk-member", size=1, volume_type=kind.id, group_id=made.id)
    until(volume, "volume", member)
    frozen = volume.create_group_snapshot(group_id=made.id, name="sdk-group-snapshot")
    frozen = until(volume, "group_snapshot", frozen)
    assert volume.find_group_snapshot("sdk-group-snapshot", ignore_missing=False).id == frozen.id
    assert [row.id for row in volume.group_snapshots()] == [frozen.id]
    volume.reset_group_snapshot_status(frozen, "available")
    volume.reset_group_snapshot_state(frozen, "available")
    copy = volume.create_group_from_source(group_snapshot_id=frozen.id, source_group_id=None, name="sdk-copy")
    copy = until(volume, "group", copy)
    for each in (volume.reset_group_status, volume.reset_group_state):
        each(copy, "available")
    refused(501, lambda: volume.enable_group_replication(made))
    refused(501, lambda: volume.disable_group_replication(made))
    refused(404, lambda: volume.failover_group_replication(made))  # names another action
    volume.delete_group_snapshot(frozen, ignore_missing=False)
    gone(volume, "group_snapshot", frozen)
    for each in (copy, made):
        volume.delete_group(each, delete_volumes=True, ignore_missing=False)
        gone(volume, "group", each)
    volume.delete_group_type(sort, ignore_missing=False)


def quotas(volume: Spy, project: str) -> None:
    assert volume.update_quota_set(project, volumes=77).volumes == 77
    assert volume.get_quota_set(project, usage=True).usage["volumes"] >= 1
    volume.revert_quota_set(project)
    assert volume.get_quota_set(project).volumes == volume.get_quota_set_defaults(project).volumes
    before = volume.get_quota_class_set("default").volumes
    assert volume.update_quota_class_set("default", volumes=before).volumes == before
    assert volume.get_limits().absolute.max_total_volumes


def services(volume: Spy) -> None:
    record = next(row for row in volume.services() if row.binary == "cinder-volume")
    assert volume.find_service("cinder-scheduler", ignore_missing=False).binary == "cinder-scheduler"
    assert volume.disable_service(record, reason="because").status == "disabled"
    assert volume.enable_service(record).status == "enabled"
    volume.freeze_service(record)
    volume.thaw_service(record)
    refused(501, lambda: volume.failover_service(record))
    refused(501, lambda: list(volume.get_service_log_levels()))
    refused(501, lambda: volume.set_service_log_levels(level="INFO"))
    refused(405, lambda: volume.cleanup_service_workers(binary=None, host=None, cluster_name=None))  # asks by PUT
    assert volume.get_capabilities(record.host).volume_backend_name


def look_around(volume: Spy) -> None:
    assert [row.name for row in volume.availability_zones()]
    assert isinstance(list(volume.extensions()), list)
    assert {row.resource for row in volume.resource_filters()} >= {"volume", "snapshot", "backup"}
    assert list(volume.clusters()) == []
    refused(404, lambda: volume.get_cluster("x"))
    assert volume.find_cluster("x") is None
    for change in (volume.enable_cluster, volume.disable_cluster):
        refused(404, lambda change=change: change(Cluster.new(name="x")))
    refused(400, lambda: list(volume.manageable_volumes(host="x")))
    refused(400, lambda: list(volume.manageable_snapshots(host="x")))


def messages(volume: Spy) -> None:
    kind = volume.create_type(name="sdk-nowhere", extra_specs={"volume_backend_name": "nowhere"})
    made = volume.create_volume(name="sdk-nowhere", size=1, volume_type=kind.id)
    assert volume.get_volume(made.id).status == "error"
    record = next(row for row in volume.messages() if row.resource_uuid == made.id)
    assert volume.get_message(record.id).id == record.id
    volume.delete_message(record, ignore_missing=False)
    volume.delete_volume(made, ignore_missing=False)
    gone(volume, "volume", made)
    volume.delete_type(kind, ignore_missing=False)
