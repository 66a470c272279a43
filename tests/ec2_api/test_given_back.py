"""Values of clients come back as they were given: Terraform replaces what differs, and Ansible reports a change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from provisioning.compute.models import BlockDevice, Flavor, Instance
from provisioning.compute.services.flavors import FlavorRequest, create_flavor
from provisioning.compute.states import VmState
from provisioning.ec2 import ids
from provisioning.ec2.models import GivenValue
from provisioning.jobs import retention
from provisioning.volumes.models import Volume
from tests.ec2_api.conftest import refused
from tests.ec2_api.test_instances import launched, run, shown
from tests.support.cast import People
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import each_row

MAPPINGS = [
    {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 3, "VolumeType": "gp3", "DeleteOnTermination": True}},
    {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 1, "VolumeType": "io1", "Iops": 100}},
]


@pytest.fixture
@standing
def cloud(people: People) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("h1").serve()
    return cloud


@pytest.mark.deep
def test_disks_of_a_launch_are_shown_as_they_were_asked_for(alice: Any, cloud: Cloud) -> None:
    instance = launched(alice, cloud, BlockDeviceMappings=MAPPINGS)
    cloud.run()
    server = shown(alice, instance)
    disks = {each["DeviceName"]: each["Ebs"]["VolumeId"] for each in server["BlockDeviceMappings"]}
    assert list(disks) == ["/dev/sda1", "/dev/sdf"]
    image = ids.id_of("ami", cloud.image.id)
    assert (server["RootDeviceName"], server["RootDeviceType"], server["ImageId"]) == ("/dev/sda1", "ebs", image)
    volumes = {each["VolumeId"]: each for each in alice.describe_volumes()["Volumes"]}
    root, data = (volumes[each] for each in disks.values())
    assert (root["Size"], root["VolumeType"]) == (3, "gp3")
    assert (data["VolumeType"], data["Iops"], data["Attachments"][0]["Device"]) == ("io1", 100, "/dev/sdf")
    assert {device.device_name for device in BlockDevice.objects.all()} == {"/dev/vda", "/dev/vdf"}  # for the guest
    kept = [{"DeviceName": "/dev/sdf", "Ebs": {"DeleteOnTermination": False}}]
    alice.modify_instance_attribute(InstanceId=instance, BlockDeviceMappings=kept)
    assert not BlockDevice.objects.get(device_name="/dev/vdf").delete_on_termination


@pytest.mark.slow
@each_row(
    ("first", "then", "shown_type"),
    [
        ({"VolumeType": "gp2"}, {}, {"VolumeType": "gp2"}),
        ({"VolumeType": "gp2"}, {"VolumeType": "gp3", "Iops": 4000}, {"VolumeType": "gp3", "Iops": 4000}),
        ({"VolumeType": "io2", "Iops": 100}, {"Iops": 200}, {"VolumeType": "io2", "Iops": 200}),
        ({}, {"VolumeType": "gp3", "Throughput": 125}, {"VolumeType": "gp3", "Throughput": 125}),
    ],
)
def test_types_of_volumes(
    alice: Any, cloud: Cloud, first: dict[str, Any], then: dict[str, Any], shown_type: dict[str, Any]
) -> None:
    volume = alice.create_volume(AvailabilityZone="nova", Size=1, **first)["VolumeId"]
    cloud.run()
    if then:
        changed = alice.modify_volume(VolumeId=volume, **then)["VolumeModification"]
        assert changed["TargetVolumeType"] == shown_type["VolumeType"]
    (shown_volume,) = alice.describe_volumes(VolumeIds=[volume])["Volumes"]
    assert {name: shown_volume[name] for name in shown_type} == shown_type


def test_speeds_belong_to_amazons_types(alice: Any, cloud: Cloud) -> None:
    requested = {"AvailabilityZone": "nova", "Size": 1, "Iops": 100}
    assert refused(alice.create_volume, **requested) == "UnsupportedOperation"


def test_a_type_is_shown_by_the_name_it_was_asked_for(alice: Any, cloud: Cloud) -> None:
    Flavor.objects.filter(pk=cloud.small.pk).update(extra_specs={"ec2:alias": "t2.micro"})
    instance = run(alice, cloud, InstanceType="t2.micro")["Instances"][0]
    assert (instance["InstanceType"], shown(alice, instance["InstanceId"])["InstanceType"]) == ("t2.micro", "t2.micro")


@pytest.fixture
def stopped(alice: Any, people: People, cloud: Cloud) -> str:
    create_flavor(people.operator.context, FlavorRequest("m1.next", 2, 1024, 2, flavorid="77"))
    instance = launched(alice, cloud)
    alice.stop_instances(InstanceIds=[instance])
    cloud.run()
    return instance


@pytest.mark.slow
@each_row(("start", "state"), [(False, VmState.STOPPED), (True, VmState.ACTIVE)])
def test_a_stopped_instance_gets_another_type(alice: Any, cloud: Cloud, stopped: str, start: bool, state: str) -> None:
    alice.modify_instance_attribute(InstanceId=stopped, InstanceType={"Value": "m1.next"})
    assert shown(alice, stopped)["InstanceType"] == "m1.next"
    assert shown(alice, stopped)["State"]["Name"] == "stopped"
    if start:
        alice.start_instances(InstanceIds=[stopped])
    cloud.run()
    record = Instance.objects.get()
    assert (record.vm_state, record.task_state, record.flavor["name"], record.old_flavor) == (
        state, None, "m1.next", None,
    )  # fmt: skip
    assert shown(alice, stopped)["InstanceType"] == "m1.next"
    assert not GivenValue.objects.filter(name="after resize").exists()


def test_a_type_for_which_there_is_no_room_changes_nothing(
    alice: Any, people: People, cloud: Cloud, stopped: str
) -> None:
    create_flavor(people.operator.context, FlavorRequest("m1.huge", 2, 1024, 100_000, flavorid="78"))
    modify = alice.modify_instance_attribute
    assert refused(modify, InstanceId=stopped, InstanceType={"Value": "m1.huge"}) == "InsufficientInstanceCapacity"
    assert (shown(alice, stopped)["InstanceType"], Instance.objects.get().task_state) == (cloud.small.name, None)


def test_values_go_with_what_they_are_of(alice: Any, cloud: Cloud) -> None:
    alice.create_volume(AvailabilityZone="nova", Size=1, VolumeType="gp3")
    assert GivenValue.objects.exists()
    Volume.objects.all().delete()
    retention.purge(timezone.now() - timedelta(days=30), pause=0)
    assert not GivenValue.objects.exists()


@pytest.mark.slow
def test_a_volume_is_deleted_while_its_snapshot_is(alice: Any, cloud: Cloud) -> None:
    volume = alice.create_volume(AvailabilityZone="nova", Size=1)["VolumeId"]
    cloud.run()
    snapshot = alice.create_snapshot(VolumeId=volume)["SnapshotId"]
    cloud.run()
    assert refused(alice.delete_volume, VolumeId=volume) == "IncorrectState"
    alice.delete_snapshot(SnapshotId=snapshot)
    alice.delete_volume(VolumeId=volume)
    cloud.run()
    assert not Volume.objects.exists()
