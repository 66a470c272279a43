"""Volumes: made, shown, attached, detached, changed and deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from django.conf import settings

from provisioning.compute.models import Instance
from provisioning.ec2 import ids
from provisioning.identity.services.ec2 import create_ec2_credential
from provisioning.quotas.services.limits import set_limit
from provisioning.volumes.models import (
    Attachment,
    StoragePool,
    TypeEncryption,
    Volume,
    VolumeModification,
    VolumeType,
)
from tests.ec2_api.conftest import Boto, client, code_of
from tests.support.cast import People
from tests.support.clouds import Cloud
from tests.support.scripted_pool import ScriptedPool
from tests.support.standing import standing
from tests.support.tables import each_row

NAME = [{"ResourceType": "volume", "Tags": [{"Key": "Name", "Value": "data"}, {"Key": "team", "Value": "red"}]}]
Make = Callable[..., str]


@pytest.fixture
@standing
def cloud(people: People) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("h1").serve()
    return cloud


@pytest.fixture
def make(alice: Any, cloud: Cloud) -> Make:
    """Make a volume and let its host carry it out."""

    def made(**values: Any) -> str:
        result = alice.create_volume(**{"AvailabilityZone": "nova", "Size": 1, **values})
        cloud.run()
        return str(result["VolumeId"])

    return made


@pytest.fixture
@standing
def server(people: People, cloud: Cloud) -> tuple[Instance, str]:
    """A server that runs, and its id in EC2."""
    instance = cloud.running(people.alice.context)
    return instance, ids.id_of("i", instance.id)


def shown(client: Any, volume: str) -> dict[str, Any]:
    (result,) = client.describe_volumes(VolumeIds=[volume])["Volumes"]
    return dict(result)


def refused(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as error:
        call(**arguments)
    return code_of(error)


@pytest.mark.slow
def test_a_volume_is_made_waited_for_and_deleted(alice: Any, cloud: Cloud, people: People) -> None:
    made = alice.create_volume(AvailabilityZone="nova", Size=2, VolumeType="gp3", TagSpecifications=NAME)
    assert (made["State"], made["Size"], made["SnapshotId"], made["Attachments"]) == ("creating", 2, "", [])
    volume = Volume.objects.get()
    assert (made["OwnerId"], volume.name) == (people.alice.project_id.hex, "data")
    cloud.run()
    alice.get_waiter("volume_available").wait(VolumeIds=[made["VolumeId"]])
    shown_volume = shown(alice, made["VolumeId"])
    assert (shown_volume["State"], shown_volume["Encrypted"], shown_volume["MultiAttachEnabled"]) == (
        "available",
        False,
        False,
    )
    assert (shown_volume["VolumeType"], shown_volume["CreateTime"]) == ("gp3", volume.created_at.replace(microsecond=
        volume.created_at.microsecond // 1000 * 1000))  # fmt: skip
    assert {tag["Key"]: tag["Value"] for tag in shown_volume["Tags"]} == {"Name": "data", "team": "red"}
    alice.delete_volume(VolumeId=made["VolumeId"])
    assert shown(alice, made["VolumeId"])["State"] == "deleting"
    cloud.run()
    alice.get_waiter("volume_deleted").wait(VolumeIds=[made["VolumeId"]])
    assert refused(alice.describe_volumes, VolumeIds=[made["VolumeId"]]) == "InvalidVolume.NotFound"


@each_row(
    ("arguments", "code"),
    [
        ({"Size": None}, "MissingParameter"),
        ({"AvailabilityZone": None}, "MissingParameter"),
        ({"AvailabilityZoneId": "nova"}, "InvalidParameterCombination"),
        ({"AvailabilityZone": "moon"}, "InvalidZone.NotFound"),
        ({"Size": 0}, "InvalidParameterValue"),
        ({"Size": 1 << 30}, "InvalidParameterValue"),
        ({"VolumeType": "fast"}, "UnknownVolumeType"),
        ({"Encrypted": True}, "UnsupportedOperation"),
        ({"MultiAttachEnabled": True}, "UnsupportedOperation"),
        ({"Iops": 100}, "UnsupportedOperation"),
        ({"SnapshotId": "vol-12345678"}, "InvalidSnapshotID.Malformed"),
        ({"SnapshotId": "snap-12345678"}, "InvalidSnapshot.NotFound"),
        ({"TagSpecifications": [{"ResourceType": "instance", "Tags": []}]}, "InvalidParameterValue"),
        ({"DryRun": True}, "DryRunOperation"),
    ],
)
def test_what_cannot_be_made_leaves_nothing(alice: Any, cloud: Cloud, arguments: dict[str, Any], code: str) -> None:
    given = {"AvailabilityZone": "nova", "Size": 1, **arguments}
    given = {name: value for name, value in given.items() if value is not None}
    assert refused(alice.create_volume, **given) == code
    assert not Volume.objects.exists()
    assert StoragePool.objects.get().allocated_gb == 0


def test_quotas_and_rules_are_those_of_block_storage(alice: Any, bob: Any, make: Make, people: People) -> None:
    set_limit(people.alice.project_id, "per_volume_gigabytes", 5)
    assert refused(alice.create_volume, AvailabilityZone="nova", Size=6) == "InvalidParameterValue"
    set_limit(people.alice.project_id, "volumes", 1)
    volume = make()
    assert refused(alice.create_volume, AvailabilityZone="nova", Size=1) == "VolumeLimitExceeded"
    assert refused(bob.create_volume, AvailabilityZone="nova", Size=1) == "UnauthorizedOperation"
    assert refused(bob.delete_volume, VolumeId=volume) == "UnauthorizedOperation"
    assert shown(bob, volume)["State"] == "available"


def test_a_limit_of_a_type_has_the_code_of_volumes(alice: Any, cloud: Cloud, people: People) -> None:
    VolumeType.objects.create(name="fast")
    set_limit(people.alice.project_id, "gigabytes_fast", 1)
    code = refused(alice.create_volume, AvailabilityZone="nova", Size=2, VolumeType="fast")
    assert code == "VolumeLimitExceeded"


def test_a_token_makes_one_volume(alice: Any, cloud: Cloud) -> None:
    one, two = (alice.create_volume(AvailabilityZone="nova", Size=1, ClientToken="a") for _ in range(2))
    assert one["VolumeId"] == two["VolumeId"]
    code = refused(alice.create_volume, AvailabilityZone="nova", Size=2, ClientToken="a")
    assert (code, Volume.objects.count()) == ("IdempotentParameterMismatch", 1)


@pytest.mark.slow
def test_types_are_this_clouds_and_amazons_names_are_only_kept(alice: Any, make: Make) -> None:
    VolumeType.objects.create(name="__DEFAULT__")
    VolumeType.objects.create(name="gp2")
    secret = VolumeType.objects.create(name="secret")
    TypeEncryption.objects.create(volume_type=secret, provider="luks")
    assert shown(alice, make(VolumeType="io1"))["VolumeType"] == "io1"
    assert Volume.objects.get().volume_type.name == "__DEFAULT__"
    assert shown(alice, make(VolumeType="gp2"))["VolumeType"] == "gp2"
    encrypted = make(VolumeType="secret", Encrypted=True)
    assert shown(alice, encrypted)["Encrypted"] is True
    filters = [{"Name": "encrypted", "Values": ["true"]}, {"Name": "volume-type", "Values": ["sec*"]}]
    assert [each["VolumeId"] for each in alice.describe_volumes(Filters=filters)["Volumes"]] == [encrypted]


def test_a_volume_no_pool_can_take_is_there_in_error(alice: Any, cloud: Cloud) -> None:
    StoragePool.objects.update(enabled=False)
    made = alice.create_volume(AvailabilityZone="nova", Size=1)
    assert made["State"] == "error"
    (status,) = alice.describe_volume_status(VolumeIds=[made["VolumeId"]])["VolumeStatuses"]
    assert status["VolumeStatus"]["Status"] == "impaired"
    alice.delete_volume(VolumeId=made["VolumeId"])
    assert not Volume.objects.exists()


@pytest.mark.slow
def test_a_volume_is_attached_waited_for_and_detached(
    alice: Any, cloud: Cloud, make: Make, server: tuple[Instance, str]
) -> None:
    volume, (_, instance) = make(), server
    answer = alice.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    assert (answer["State"], answer["Device"], answer["InstanceId"]) == ("attaching", "/dev/sdf", instance)
    assert refused(alice.attach_volume, VolumeId=volume, InstanceId=instance, Device="/dev/sdg") == "VolumeInUse"
    assert shown(alice, volume)["State"] == "in-use"
    cloud.run()
    alice.get_waiter("volume_in_use").wait(VolumeIds=[volume])
    (attachment,) = shown(alice, volume)["Attachments"]
    assert (attachment["State"], attachment["VolumeId"]) == ("attached", volume)
    assert attachment["DeleteOnTermination"] is False
    (mapping,) = alice.describe_instances()["Reservations"][0]["Instances"][0]["BlockDeviceMappings"]
    assert (mapping["DeviceName"], mapping["Ebs"]["VolumeId"]) == ("/dev/sdf", volume)
    assert refused(alice.delete_volume, VolumeId=volume) == "VolumeInUse"
    for name, value in (("status", "attached"), ("instance-id", instance), ("device", "/dev/sd?")):
        filters = [{"Name": f"attachment.{name}", "Values": [value]}]
        assert len(alice.describe_volumes(Filters=filters)["Volumes"]) == 1
    assert alice.detach_volume(VolumeId=volume)["State"] == "detaching"
    assert alice.detach_volume(VolumeId=volume)["State"] == "detaching"
    assert shown(alice, volume)["State"] == "in-use"
    cloud.run()
    alice.get_waiter("volume_available").wait(VolumeIds=[volume])
    assert refused(alice.detach_volume, VolumeId=volume) == "IncorrectState"


@pytest.mark.slow
def test_what_cannot_be_attached_is_refused_and_stays_free(
    alice: Any, charlie: Any, cloud: Cloud, make: Make, server: tuple[Instance, str]
) -> None:
    (one, two), (_, instance) = (make(), make()), server

    def code(**changes: str) -> str:
        given = {"VolumeId": one, "InstanceId": instance, "Device": "/dev/sdf", **changes}
        return refused(alice.attach_volume, **given)

    assert code(Device="/dev/../etc") == code(Device="") == code(Device="/dev/hda") == "InvalidParameterValue"
    assert code(Device="/dev/sda1") == "InvalidParameterValue"
    assert code(InstanceId="i-12345678") == "InvalidInstanceID.NotFound"
    assert code(InstanceId="vol-12345678") == "InvalidInstanceID.Malformed"
    assert code(VolumeId="vol-12345678") == "InvalidVolume.NotFound"
    strange = charlie.create_volume(AvailabilityZone="nova", Size=1)["VolumeId"]
    assert code(VolumeId=strange) == "InvalidVolume.NotFound"
    assert refused(alice.detach_volume, VolumeId=strange) == "InvalidVolume.NotFound"
    alice.attach_volume(VolumeId=two, InstanceId=instance, Device="/dev/xvdf")
    assert code() == "InvalidParameterValue"
    Volume.objects.filter(id=ids.resources_of("vol", [one])[one]).update(status="backing-up")
    assert code(Device="/dev/sdg") == "IncorrectState"
    Instance.objects.update(vm_state="building")
    Volume.objects.update(status="available")
    assert code(Device="/dev/sdg") == "IncorrectState"
    assert Attachment.objects.count() == 1


@pytest.mark.slow
def test_zones_that_differ_are_reported_by_their_code(
    alice: Any, make: Make, server: tuple[Instance, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = make()
    Volume.objects.update(availability_zone="moon")
    monkeypatch.setattr(settings, "CROSS_AZ_ATTACH", False)
    code = refused(alice.attach_volume, VolumeId=volume, InstanceId=server[1], Device="/dev/sdf")
    assert code == "InvalidVolume.ZoneMismatch"


@pytest.mark.slow
def test_which_attachment_is_detached_and_by_whom(
    alice: Any, boto: Boto, cloud: Cloud, make: Make, server: tuple[Instance, str], people: People
) -> None:
    volume, (_, instance) = make(), server
    alice.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    cloud.run()
    other = ids.id_of("i", cloud.running(people.alice.context).id)
    assert refused(alice.detach_volume, VolumeId=volume, InstanceId=other) == "InvalidAttachment.NotFound"
    assert refused(alice.detach_volume, VolumeId=volume, Device="/dev/sdg") == "InvalidAttachment.NotFound"
    assert refused(alice.detach_volume, VolumeId=volume, Force=True) == "UnauthorizedOperation"
    assert refused(boto(people.operator).detach_volume, VolumeId=volume) == "InvalidVolume.NotFound"
    assert alice.detach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")["State"] == "detaching"


@pytest.mark.slow
def test_an_operator_detaches_by_force(boto: Boto, cloud: Cloud, people: People) -> None:
    operator = boto(people.operator)
    instance = ids.id_of("i", cloud.running(people.operator.context).id)
    volume = operator.create_volume(AvailabilityZone="nova", Size=1)["VolumeId"]
    cloud.run()
    operator.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    cloud.run()
    assert operator.detach_volume(VolumeId=volume, Force=True)["State"] == "detached"
    assert not Attachment.objects.exists()


@pytest.mark.slow
def test_a_volume_of_several_names_the_instance(
    alice: Any, cloud: Cloud, make: Make, server: tuple[Instance, str], people: People
) -> None:
    VolumeType.objects.create(name="shared", extra_specs={"multiattach": "<is> True"})
    volume = make(VolumeType="shared", MultiAttachEnabled=True)
    instances = [server[1], ids.id_of("i", cloud.running(people.alice.context).id)]
    for instance in instances:
        alice.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
        cloud.run()
    assert len(shown(alice, volume)["Attachments"]) == 2
    assert refused(alice.detach_volume, VolumeId=volume) == "InvalidParameterCombination"
    answer = alice.detach_volume(VolumeId=volume, InstanceId=instances[1])
    assert (answer["State"], answer["InstanceId"]) == ("detaching", instances[1])


@pytest.mark.slow
def test_pages_have_each_volume_once_in_the_order_of_their_making(alice: Any, charlie: Any, make: Make) -> None:
    made = [make() for _ in range(3)]
    charlie.create_volume(AvailabilityZone="nova", Size=1)
    pages = alice.get_paginator("describe_volumes").paginate(PaginationConfig={"PageSize": 2})
    assert [[each["VolumeId"] for each in page["Volumes"]] for page in pages] == [made[:2], made[2:]]
    assert [each["VolumeId"] for each in alice.describe_volumes(VolumeIds=made[::-1])["Volumes"]] == made
    assert refused(alice.describe_volumes, VolumeIds=made, MaxResults=5) == "InvalidParameterCombination"
    assert refused(alice.describe_volumes, VolumeIds=["i-12345678"]) == "InvalidVolumeID.Malformed"
    assert refused(alice.describe_volumes, Filters=[{"Name": "colour", "Values": ["red"]}]) == "InvalidParameterValue"


@pytest.mark.deep  # the baseline of queries has these lists
def test_lists_take_the_same_queries_however_long(
    alice: Any, make: Make, server: tuple[Instance, str], cloud: Cloud, django_assert_max_num_queries: Any
) -> None:
    for device in "fg":
        alice.attach_volume(VolumeId=make(), InstanceId=server[1], Device=f"/dev/sd{device}")
    for _ in range(4):
        make(TagSpecifications=NAME)
    alice.describe_volumes()
    for call in (alice.describe_volumes, alice.describe_volume_status, alice.describe_volumes_modifications):
        with django_assert_max_num_queries(14):
            call()


def test_what_can_be_reached_is_well(alice: Any, cloud: Cloud, make: Make) -> None:
    volume = make()
    (status,) = alice.describe_volume_status()["VolumeStatuses"]
    assert (status["VolumeId"], status["VolumeStatus"]["Status"]) == (volume, "ok")
    assert status["VolumeStatus"]["Details"][0] == {"Name": "io-enabled", "Status": "passed"}
    alice.create_volume(AvailabilityZone="nova", Size=1)
    filters = [{"Name": "volume-status.status", "Values": ["insufficient-data"]}]
    assert len(alice.describe_volume_status(Filters=filters)["VolumeStatuses"]) == 1


def test_attributes_say_what_is_always_so(alice: Any, make: Make) -> None:
    volume = make()
    assert alice.describe_volume_attribute(VolumeId=volume, Attribute="autoEnableIO")["AutoEnableIO"]["Value"] is True
    assert alice.describe_volume_attribute(VolumeId=volume, Attribute="productCodes")["ProductCodes"] == []
    alice.modify_volume_attribute(VolumeId=volume, AutoEnableIO={"Value": True})
    assert refused(alice.modify_volume_attribute, VolumeId=volume, AutoEnableIO={"Value": False}) == (
        "UnsupportedOperation"
    )
    assert refused(alice.modify_volume_attribute, VolumeId=volume) == "MissingParameter"
    assert refused(alice.enable_volume_io, VolumeId=volume) == "InvalidAction"


def modification(client: Any, volume: str) -> tuple[Any, ...]:
    (result,) = client.describe_volumes_modifications(VolumeIds=[volume])["VolumesModifications"]
    return (
        result["ModificationState"],
        result["OriginalSize"],
        result["TargetSize"],
        result["Progress"],
    )


@pytest.mark.slow
def test_a_volume_grows_and_says_how_it_went(
    alice: Any, cloud: Cloud, make: Make, server: tuple[Instance, str], people: People
) -> None:
    volume = make()
    assert refused(alice.describe_volumes_modifications, VolumeIds=[volume]) == "InvalidVolumeModification.NotFound"
    assert alice.describe_volumes_modifications()["VolumesModifications"] == []
    alice.attach_volume(VolumeId=volume, InstanceId=server[1], Device="/dev/sdf")
    cloud.run()
    begun = alice.modify_volume(VolumeId=volume, Size=3)["VolumeModification"]
    assert (begun["ModificationState"], begun["TargetSize"], "EndTime" in begun) == ("modifying", 3, False)
    assert refused(alice.modify_volume, VolumeId=volume, Size=4) == "IncorrectModificationState"
    assert modification(alice, volume) == ("modifying", 1, 3, 0)
    cloud.run()
    assert modification(alice, volume) == ("completed", 1, 3, 100)
    assert (shown(alice, volume)["Size"], shown(alice, volume)["State"]) == (3, "in-use")
    cloud.agents["h1"].failing["grow_volume_request"] = "No room."
    alice.modify_volume(VolumeId=volume, Size=5)
    cloud.run()
    assert modification(alice, volume)[:3] == ("failed", 3, 5)
    filters = [{"Name": "modification-state", "Values": ["failed"]}, {"Name": "target-size", "Values": ["5"]}]
    assert len(alice.describe_volumes_modifications(Filters=filters)["VolumesModifications"]) == 1


@pytest.mark.both_databases("locks")
def test_a_volume_gets_another_type_and_a_size_at_once(alice: Any, cloud: Cloud, make: Make) -> None:
    VolumeType.objects.create(name="__DEFAULT__")
    VolumeType.objects.create(name="fast")
    volume = make()
    alice.modify_volume(VolumeId=volume, VolumeType="fast")
    assert modification(alice, volume)[0] == "completed"
    begun = alice.modify_volume(VolumeId=volume, VolumeType="__DEFAULT__", Size=2)["VolumeModification"]
    assert (begun["OriginalVolumeType"], begun["TargetVolumeType"]) == ("fast", "__DEFAULT__")
    cloud.run()
    assert modification(alice, volume) == ("completed", 1, 2, 100)
    unchanged = alice.modify_volume(VolumeId=volume, VolumeType="gp3", Size=2)["VolumeModification"]
    assert (unchanged["ModificationState"], unchanged["TargetVolumeType"]) == ("completed", "gp3")
    assert refused(alice.modify_volume, VolumeId=volume, Size=1) == "InvalidParameterValue"
    assert refused(alice.modify_volume, VolumeId=volume, VolumeType="none") == "UnknownVolumeType"
    assert refused(alice.modify_volume, VolumeId=volume) == "InvalidParameterCombination"
    assert refused(alice.modify_volume, VolumeId="vol-12345678", Size=2) == "InvalidVolume.NotFound"
    assert VolumeModification.objects.get().ended_at is not None


@pytest.mark.slow
def test_a_type_that_moves_the_data_is_given_first_and_the_size_after(alice: Any, cloud: Cloud, make: Make) -> None:
    VolumeType.objects.create(name="ssd", extra_specs={"ssd": "true"})
    cloud.add_host("h2").serve(ScriptedPool(name="fast", total_gb=10, free_gb=10, capabilities={"ssd": "true"}))
    volume = make(VolumeType="standard")
    Volume.objects.update(pool=StoragePool.objects.get(name="local"))
    code = refused(alice.modify_volume, VolumeId=volume, VolumeType="ssd", Size=2)
    assert (code, VolumeModification.objects.exists()) == ("InvalidParameterValue", False)
    alice.modify_volume(VolumeId=volume, VolumeType="ssd")
    assert modification(alice, volume)[0] == "modifying"
    cloud.run()
    assert (modification(alice, volume)[0], shown(alice, volume)["VolumeType"]) == ("completed", "ssd")


@pytest.mark.slow
def test_boto3s_resources_lead_from_one_to_the_other(
    make: Make, server: tuple[Instance, str], cloud: Cloud, people: People
) -> None:
    ec2 = client(*create_ec2_credential(people.alice.user, people.alice.project), kind="resource")
    volume = ec2.Volume(make(TagSpecifications=NAME))
    volume.attach_to_instance(InstanceId=server[1], Device="/dev/sdf")
    cloud.run()
    assert [each.id for each in ec2.Instance(server[1]).volumes.all()] == [volume.id]
    taken = volume.create_snapshot(Description="resource")
    cloud.run()
    taken.wait_until_completed()
    assert [each.description for each in volume.snapshots.all()] == ["resource"]
    image = ec2.Instance(server[1]).create_image(Name="of a resource")
    cloud.run()
    image.wait_until_exists()
    image.reload()
    assert (image.state, ec2.create_key_pair(KeyName="k", KeyType="ed25519").name) == ("available", "k")
    assert {tag["ResourceType"] for tag in ec2.meta.client.describe_tags()["Tags"]} == {"volume"}


def test_tags_are_for_those_who_have_the_volume(alice: Any, charlie: Any, make: Make) -> None:
    volume = make()
    alice.create_tags(Resources=[volume], Tags=[{"Key": "a", "Value": "b"}])
    assert shown(alice, volume)["Tags"] == [{"Key": "a", "Value": "b"}]
    assert refused(charlie.create_tags, Resources=[volume], Tags=[{"Key": "a"}]) == "InvalidVolume.NotFound"
    assert len(alice.describe_volumes(Filters=[{"Name": "tag:a", "Values": ["b"]}])["Volumes"]) == 1


@pytest.mark.slow
def test_volumes_and_interfaces_get_the_tags_of_their_launch(alice: Any, cloud: Cloud) -> None:
    def of(resource_type: str) -> dict[str, Any]:
        return {"ResourceType": resource_type, "Tags": [{"Key": "Env", "Value": resource_type}]}

    disks = [{"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 1, "DeleteOnTermination": True}}]
    kinds = ["instance", "volume", "network-interface"]
    image = ids.id_of("ami", cloud.image.id)
    given = {"ImageId": image, "InstanceType": cloud.small.name, "MinCount": 2, "MaxCount": 2}
    made = alice.run_instances(**given, BlockDeviceMappings=disks, TagSpecifications=[of(kind) for kind in kinds])
    cloud.run()
    result = alice.describe_tags(Filters=[{"Name": "key", "Values": ["Env"]}])["Tags"]
    assert sorted(each["ResourceType"] for each in result) == sorted(kinds * 2)
    assert all(each["Value"] == each["ResourceType"] for each in result)
    result = alice.describe_instances(InstanceIds=[made["Instances"][0]["InstanceId"]])
    instance = result["Reservations"][0]["Instances"][0]
    volume = instance["BlockDeviceMappings"][-1]["Ebs"]["VolumeId"]
    tags = [{"Key": "Env", "Value": "volume"}]
    assert shown(alice, volume)["Tags"] == tags
    interface = instance["NetworkInterfaces"][0]["NetworkInterfaceId"]
    shape = alice.describe_network_interfaces(NetworkInterfaceIds=[interface])["NetworkInterfaces"][0]
    assert shape["TagSet"] == [{"Key": "Env", "Value": "network-interface"}]
