"""Snapshots of volumes."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.ec2 import ids
from provisioning.quotas.services.limits import set_limit
from provisioning.volumes.models import Snapshot, Volume
from tests.ec2_api.test_volumes import refused, shown
from tests.support.cast import People
from tests.support.clouds import Cloud
from tests.support.standing import standing

NAME = [{"ResourceType": "snapshot", "Tags": [{"Key": "Name", "Value": "monday"}]}]


@pytest.fixture
@standing
def cloud(people: People) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("h1").serve()
    return cloud


@pytest.fixture
@standing
def volume(alice: Any, cloud: Cloud) -> str:
    made = alice.create_volume(AvailabilityZone="nova", Size=2)["VolumeId"]
    cloud.run()
    return str(made)


@pytest.mark.slow
def test_a_snapshot_is_taken_waited_for_and_makes_a_volume(
    alice: Any, cloud: Cloud, volume: str, people: People
) -> None:
    made = alice.create_snapshot(VolumeId=volume, Description="before", TagSpecifications=NAME)
    assert (made["State"], made["Progress"], made["VolumeId"], made["VolumeSize"]) == ("pending", "0%", volume, 2)
    assert refused(alice.create_volume, AvailabilityZone="nova", SnapshotId=made["SnapshotId"]) == "IncorrectState"
    cloud.run()
    alice.get_waiter("snapshot_completed").wait(SnapshotIds=[made["SnapshotId"]])
    (shown_snapshot,) = alice.describe_snapshots()["Snapshots"]
    assert (shown_snapshot["State"], shown_snapshot["Progress"], shown_snapshot["Description"]) == (
        "completed",
        "100%",
        "before",
    )
    assert (shown_snapshot["OwnerId"], shown_snapshot["Tags"]) == (
        people.alice.project_id.hex,
        [{"Key": "Name", "Value": "monday"}],
    )
    assert Snapshot.objects.get().name == "monday"
    copy = alice.create_volume(AvailabilityZone="nova", SnapshotId=made["SnapshotId"], VolumeType="gp3")
    cloud.run()
    assert (copy["Size"], copy["SnapshotId"]) == (2, made["SnapshotId"])
    filters = [{"Name": "snapshot-id", "Values": [made["SnapshotId"]]}]
    assert [each["VolumeId"] for each in alice.describe_volumes(Filters=filters)["Volumes"]] == [copy["VolumeId"]]
    small = refused(alice.create_volume, AvailabilityZone="nova", SnapshotId=made["SnapshotId"], Size=1)
    assert small == "InvalidParameterValue"


@pytest.mark.slow
def test_a_volume_in_use_is_snapshotted(alice: Any, cloud: Cloud, volume: str, people: People) -> None:
    instance = ids.id_of("i", cloud.running(people.alice.context).id)
    alice.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    assert refused(alice.create_snapshot, VolumeId=volume) == "IncorrectState"
    cloud.run()
    alice.create_snapshot(VolumeId=volume)
    cloud.run()
    assert alice.describe_snapshots()["Snapshots"][0]["State"] == "completed"


@pytest.mark.slow
def test_snapshots_are_deleted_and_go_before_their_volume(alice: Any, cloud: Cloud, volume: str) -> None:
    one = alice.create_snapshot(VolumeId=volume)["SnapshotId"]
    assert refused(alice.delete_snapshot, SnapshotId=one) == "IncorrectState"
    cloud.run()
    assert refused(alice.delete_volume, VolumeId=volume) == "IncorrectState"
    Snapshot.objects.update(status="backing-up")
    assert refused(alice.delete_snapshot, SnapshotId=one) == "InvalidSnapshot.InUse"
    Snapshot.objects.update(status="available")
    alice.delete_snapshot(SnapshotId=one)
    (going,) = alice.describe_snapshots(SnapshotIds=[one])["Snapshots"]
    assert (going["State"], going["StateMessage"]) == ("pending", "The snapshot is being deleted")
    cloud.run()
    assert refused(alice.describe_snapshots, SnapshotIds=[one]) == "InvalidSnapshot.NotFound"
    alice.delete_volume(VolumeId=volume)
    cloud.run()
    assert not Volume.objects.exists()


def test_a_snapshot_that_fails_is_reported(alice: Any, cloud: Cloud, volume: str) -> None:
    cloud.agents["h1"].failing["snapshot_volume_request"] = "No room."
    alice.create_snapshot(VolumeId=volume)
    cloud.run()
    assert alice.describe_snapshots()["Snapshots"][0]["State"] == "error"


@pytest.mark.slow
def test_snapshots_are_found_by_owner_filter_and_page(
    alice: Any, charlie: Any, cloud: Cloud, volume: str, people: People
) -> None:
    made = [alice.create_snapshot(VolumeId=volume, Description=f"day {day}")["SnapshotId"] for day in range(3)]
    cloud.run()

    def found(client: Any = alice, **arguments: Any) -> list[str]:
        return [each["SnapshotId"] for each in client.describe_snapshots(**arguments)["Snapshots"]]

    assert found() == found(OwnerIds=["self"]) == found(OwnerIds=["amazon", people.alice.project_id.hex]) == made
    assert found(RestorableByUserIds=["self"], OwnerIds=["self"]) == made
    assert found(OwnerIds=["amazon"]) == found(RestorableByUserIds=["all"]) == found(charlie) == []
    assert found(Filters=[{"Name": "description", "Values": ["day [1]", "day 2"]}]) == made[2:]
    assert found(Filters=[{"Name": "volume-id", "Values": [volume]}, {"Name": "status", "Values": ["error"]}]) == []
    pages = alice.get_paginator("describe_snapshots").paginate(PaginationConfig={"PageSize": 2})
    assert [len(page["Snapshots"]) for page in pages] == [2, 1]
    assert refused(charlie.describe_snapshots, SnapshotIds=made) == "InvalidSnapshot.NotFound"
    assert refused(charlie.delete_snapshot, SnapshotId=made[0]) == "InvalidSnapshot.NotFound"
    assert refused(charlie.create_snapshot, VolumeId=volume) == "InvalidVolume.NotFound"
    assert refused(alice.describe_snapshots, SnapshotIds=made, MaxResults=5) == "InvalidParameterCombination"
    assert refused(alice.delete_snapshot, SnapshotId="vol-1") == "InvalidSnapshotID.Malformed"


@pytest.mark.slow
def test_lists_take_the_same_queries_however_long(alice: Any, volume: str, django_assert_max_num_queries: Any) -> None:
    for _ in range(4):
        alice.create_snapshot(VolumeId=volume, TagSpecifications=NAME)
    with django_assert_max_num_queries(12):
        alice.describe_snapshots()


@pytest.mark.slow
def test_rules_limits_and_attributes(alice: Any, bob: Any, volume: str, people: People) -> None:
    made = alice.create_snapshot(VolumeId=volume)["SnapshotId"]
    assert refused(bob.create_snapshot, VolumeId=volume) == "UnauthorizedOperation"
    assert len(bob.describe_snapshots()["Snapshots"]) == 1
    set_limit(people.alice.project_id, "snapshots", 1)
    assert refused(alice.create_snapshot, VolumeId=volume) == "SnapshotLimitExceeded"
    shared = alice.describe_snapshot_attribute(SnapshotId=made, Attribute="createVolumePermission")
    assert shared["CreateVolumePermissions"] == []
    assert alice.describe_snapshot_attribute(SnapshotId=made, Attribute="productCodes")["ProductCodes"] == []
    change = {"Attribute": "createVolumePermission", "OperationType": "add", "UserIds": ["1"]}
    assert refused(alice.modify_snapshot_attribute, SnapshotId=made, **change) == "InvalidAction"
    assert refused(alice.create_snapshots, InstanceSpecification={"InstanceId": "i-1"}) == "InvalidAction"
    assert shown(alice, volume)["State"] == "available"
