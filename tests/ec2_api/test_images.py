"""Images: shown, made of instances and snapshots, shared, taken out of use and ended."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from provisioning.compute.models import Instance
from provisioning.ec2 import ids
from provisioning.images.data import store
from provisioning.images.models import Image, ImageMember
from provisioning.images.services import add_member
from provisioning.volumes.models import Snapshot
from tests.compute_api.conftest import put_server
from tests.ec2_api.conftest import Boto
from tests.ec2_api.test_volumes import refused
from tests.support.cast import People
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import each_row

MIXED = "InvalidParameterCombination"
ROOT = [{"DeviceName": "/dev/vda", "Ebs": {"VolumeSize": 1, "DeleteOnTermination": True, "Encrypted": False}}]
TAGS = [{"Key": "team", "Value": "red"}]


@pytest.fixture
@standing
def cloud(people: People) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("h1").serve()
    return cloud


@pytest.fixture
@standing
def snapshot(alice: Any, cloud: Cloud) -> str:
    volume = alice.create_volume(AvailabilityZone="nova", Size=2)["VolumeId"]
    cloud.run()
    made = alice.create_snapshot(VolumeId=volume)["SnapshotId"]
    cloud.run()
    return str(made)


def make(project: uuid.UUID, name: str, **values: Any) -> str:
    """Write the record of an image that has its data; return its id in EC2."""
    row = {"status": "active", "visibility": "private", "disk_format": "qcow2", "size": 1, **values}
    return ids.id_of("ami", Image.objects.create(project_id=project, name=name, container_format="bare", **row).id)


def names_of(client: Any, **arguments: Any) -> list[str]:
    return [each["Name"] for each in client.describe_images(**arguments)["Images"]]


def shown(client: Any, image: str) -> dict[str, Any]:
    (result,) = client.describe_images(ImageIds=[image])["Images"]
    return dict(result)


@pytest.mark.slow
def test_images_that_a_project_may_use_are_listed(alice: Any, cloud: Cloud, people: People) -> None:
    own, theirs = people.alice.project_id, people.charlie.project_id
    make(own, "own", properties={"description": "mine", "hw_architecture": "aarch64", "os_type": "windows"})
    make(theirs, "private")
    by_id = [
        make(theirs, "community", visibility="community"),
        make(theirs, "hidden", visibility="public", hidden=True),
    ]
    for name, status in (("offered", "pending"), ("taken", "accepted"), ("refused", "rejected")):
        image = make(theirs, name, visibility="shared")
        by_id += [image] if status == "rejected" else []
        ImageMember.objects.create(image_id=ids.resources_of("ami", [image])[image], project_id=own, status=status)
    assert names_of(alice) == ["small", "own", "offered", "taken"]
    assert sorted(names_of(alice, ImageIds=by_id)) == ["community", "hidden", "refused"]
    assert names_of(alice, Owners=["self"]) == names_of(alice, Owners=[own.hex]) == ["own"]
    assert names_of(alice, Owners=["amazon"]) == names_of(alice, Owners=["aws-marketplace"]) == []
    assert names_of(alice, Owners=[theirs.hex, "amazon"]) == ["offered", "taken"]
    assert names_of(alice, ExecutableUsers=["all"]) == ["small"]
    assert names_of(alice, ExecutableUsers=["self"]) == ["offered", "taken"]
    assert names_of(alice, ExecutableUsers=[theirs.hex]) == []
    (shown_image,) = alice.describe_images(Owners=["self"])["Images"]
    expected = {
        "Description": "mine", "Architecture": "arm64", "Platform": "windows", "State": "available", "Public": False,
        "RootDeviceType": "ebs", "ImageType": "machine", "OwnerId": own.hex, "VirtualizationType": "hvm",
        "ImageLocation": f"{own.hex}/own", "BlockDeviceMappings": ROOT, "DeregistrationProtection": "disabled",
    }  # fmt: skip
    assert {name: shown_image[name] for name in expected} == expected


def test_an_operator_sees_what_its_project_may_use(boto: Boto, cloud: Cloud, people: People) -> None:
    image = make(people.alice.project_id, "private")
    assert names_of(boto(people.operator)) == ["small"]
    assert refused(boto(people.operator).describe_images, ImageIds=[image]) == "InvalidAMIID.NotFound"
    assert refused(boto(people.operator).deregister_image, ImageId=image) == "InvalidAMIID.NotFound"


@pytest.fixture
def several(alice: Any, cloud: Cloud, people: People) -> None:
    own = people.alice.project_id
    alice.create_tags(Resources=[make(own, "web-1")], Tags=TAGS)
    make(own, "web-2", status="saving")
    make(own, "db", properties={"description": "a store", "hw_architecture": "aarch64"})


@each_row(
    ("name", "values", "found"),
    [
        ("name", ["web-*"], ["web-1", "web-2"]),
        ("name", ["web-?", "db"], ["web-1", "web-2", "db"]),
        ("name", ["web"], []),
        ("state", ["pending"], ["web-2"]),
        ("is-public", ["true"], ["small"]),
        ("architecture", ["arm64"], ["db"]),
        ("root-device-type", ["ebs"], ["small", "web-1", "web-2", "db"]),
        ("description", ["*store*"], ["db"]),
        ("owner-alias", ["amazon"], []),
        ("tag:team", ["red"], ["web-1"]),
        ("tag-key", ["team"], ["web-1"]),
    ],
)
def test_images_are_filtered(alice: Any, several: None, name: str, values: list[str], found: list[str]) -> None:
    assert names_of(alice, Filters=[{"Name": name, "Values": values}]) == found


@each_row("text", ["7", "[7]", '[{"volume_size": Infinity}]', "[" * 5000, r'["\ud800"]', ""])
def test_what_an_owner_writes_of_its_disks_breaks_no_list(alice: Any, cloud: Cloud, people: People, text: str) -> None:
    image = make(people.alice.project_id, "odd", properties={"block_device_mapping": text})
    filters = [{"Name": "block-device-mapping.device-name", "Values": ["*"]}]
    assert (shown(alice, image)["BlockDeviceMappings"], names_of(alice, Filters=filters)) == (ROOT, ["small", "odd"])


def test_pages_ids_and_queries(alice: Any, cloud: Cloud, people: People, django_assert_max_num_queries: Any) -> None:
    made = [make(people.alice.project_id, f"image {number}") for number in range(5)]
    alice.describe_images()
    pages = alice.get_paginator("describe_images").paginate(PaginationConfig={"PageSize": 4})
    assert [len(page["Images"]) for page in pages] == [4, 2]
    with django_assert_max_num_queries(14):
        assert len(alice.describe_images()["Images"]) == 6
    assert refused(alice.describe_images, ImageIds=made, MaxResults=5) == "InvalidParameterCombination"
    assert refused(alice.describe_images, ImageIds=["ami-12345678"]) == "InvalidAMIID.NotFound"
    assert refused(alice.describe_images, ImageIds=["vol-12345678"]) == "InvalidAMIID.Malformed"


@each_row(
    ("status", "state"),
    [("queued", "pending"), ("importing", "pending"), ("active", "available"), ("killed", "failed")],
)
def test_states_are_those_of_ec2(alice: Any, cloud: Cloud, people: People, status: str, state: str) -> None:
    assert shown(alice, make(people.alice.project_id, "x", status=status))["State"] == state


@pytest.mark.slow
def test_an_image_is_made_of_an_instance_and_waited_for(alice: Any, cloud: Cloud, people: People) -> None:
    instance = ids.id_of("i", cloud.running(people.alice.context).id)
    given = {"InstanceId": instance, "Name": "golden (1)", "Description": "as of today", "NoReboot": True}
    made = alice.create_image(**given, TagSpecifications=[{"ResourceType": "image", "Tags": TAGS}])["ImageId"]
    assert shown(alice, made)["State"] == "pending"
    assert refused(alice.create_image, **given) == "InvalidAMIName.Duplicate"
    assert refused(alice.create_image, InstanceId=instance, Name="other") == "IncorrectState"
    cloud.run()
    alice.get_waiter("image_exists").wait(ImageIds=[made])
    alice.get_waiter("image_available").wait(ImageIds=[made])
    image = shown(alice, made)
    assert (image["Description"], image["SourceInstanceId"], image["Tags"]) == ("as of today", instance, TAGS)
    alice.deregister_image(ImageId=made)
    assert refused(alice.describe_images, ImageIds=[made]) == "InvalidAMIID.NotFound"


@pytest.mark.slow
def test_an_image_of_a_server_on_a_volume_names_its_snapshots(alice: Any, cloud: Cloud) -> None:
    disk = {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 3, "DeleteOnTermination": True}}
    launch = {"InstanceType": "m1.small", "MinCount": 1, "MaxCount": 1}
    small = alice.describe_images()["Images"][0]["ImageId"]
    first = alice.run_instances(ImageId=small, BlockDeviceMappings=[disk], **launch)["Instances"][0]["InstanceId"]
    cloud.run()
    kinds = [{"ResourceType": kind, "Tags": TAGS} for kind in ("image", "snapshot")]
    made = alice.create_image(InstanceId=first, Name="root", TagSpecifications=kinds)["ImageId"]
    assert shown(alice, made)["State"] == "pending"
    cloud.run()
    alice.get_waiter("image_available").wait(ImageIds=[made])
    image = shown(alice, made)
    (snapshot,) = alice.describe_snapshots()["Snapshots"]
    assert (image["RootDeviceType"], snapshot["Tags"], image["Tags"]) == ("ebs", TAGS, TAGS)
    (mapping,) = image["BlockDeviceMappings"]
    assert (mapping["Ebs"]["SnapshotId"], mapping["Ebs"]["VolumeSize"]) == (snapshot["SnapshotId"], 3)
    filters = [{"Name": "block-device-mapping.snapshot-id", "Values": [snapshot["SnapshotId"]]}]
    assert names_of(alice, Filters=filters) == ["root"]
    assert refused(alice.delete_snapshot, SnapshotId=snapshot["SnapshotId"]) == "InvalidSnapshot.InUse"
    second = alice.run_instances(ImageId=made, **launch)["Instances"][0]["InstanceId"]
    cloud.run()
    volumes = alice.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [second]}])["Volumes"]
    assert [each["SnapshotId"] for each in volumes] == [snapshot["SnapshotId"]]
    answer = alice.deregister_image(ImageId=made, DeleteAssociatedSnapshots=True)
    expected = [{"SnapshotId": snapshot["SnapshotId"], "ReturnCode": "success"}]
    assert answer["DeleteSnapshotResults"] == expected


@pytest.fixture
def running(cloud: Cloud, people: People) -> str:
    return ids.id_of("i", cloud.running(people.alice.context).id)


@each_row(
    ("arguments", "code"),
    [
        ({"Name": "x"}, "InvalidAMIName.Malformed"),
        ({"Name": "a\nb c"}, "InvalidAMIName.Malformed"),
        ({"InstanceId": "i-12345678"}, "InvalidInstanceID.NotFound"),
        ({"InstanceId": "ami-12345678"}, "InvalidInstanceID.Malformed"),
        ({"Description": "x" * 256}, "InvalidParameterValue"),
        ({"BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "NoDevice": ""}]}, "UnsupportedOperation"),
        ({"TagSpecifications": [{"ResourceType": "volume", "Tags": TAGS}]}, "InvalidParameterValue"),
    ],
)
def test_what_cannot_be_made_of_an_instance_leaves_nothing(
    alice: Any, running: str, arguments: dict[str, Any], code: str
) -> None:
    given = {"InstanceId": running, "Name": "golden", **arguments}
    assert refused(alice.create_image, **given) == code
    assert Image.objects.count() == 1
    assert Instance.objects.get().task_state is None


def test_an_image_is_made_by_members_of_the_instances_project(bob: Any, charlie: Any, running: str) -> None:
    assert refused(bob.create_image, InstanceId=running, Name="golden") == "UnauthorizedOperation"
    assert refused(charlie.create_image, InstanceId=running, Name="golden") == "InvalidInstanceID.NotFound"
    assert Image.objects.count() == 1
    assert Instance.objects.get().task_state is None


@pytest.mark.slow
def test_an_image_is_registered_of_a_snapshot_and_launched(alice: Any, cloud: Cloud, snapshot: str) -> None:
    disks = [
        {"DeviceName": "/dev/sda1", "Ebs": {"SnapshotId": snapshot, "VolumeType": "gp2", "VolumeSize": 3}},
        {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 1, "DeleteOnTermination": False}},
    ]
    given = {"Name": "of a snapshot", "Architecture": "x86_64", "VirtualizationType": "hvm", "EnaSupport": True}
    tagged = [{"ResourceType": "image", "Tags": TAGS}]
    made = alice.register_image(
        **given, RootDeviceName="/dev/sda1", BlockDeviceMappings=disks, TagSpecifications=tagged
    )
    image = shown(alice, made["ImageId"])
    assert (image["State"], image["RootDeviceType"], image["RootDeviceName"]) == ("available", "ebs", "/dev/vda")
    assert image["BlockDeviceMappings"] == [
        {
            "DeviceName": "/dev/vda",
            "Ebs": {"SnapshotId": snapshot, "VolumeSize": 3, "DeleteOnTermination": True, "Encrypted": False},
        },
        {"DeviceName": "/dev/vdf", "Ebs": {"VolumeSize": 1, "DeleteOnTermination": False}},
    ]
    launched = alice.run_instances(ImageId=made["ImageId"], InstanceType="m1.small", MinCount=1, MaxCount=1)
    cloud.run()
    instance = launched["Instances"][0]["InstanceId"]
    volumes = alice.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [instance]}])["Volumes"]
    assert sorted(each["Size"] for each in volumes) == [1, 3]
    Snapshot.objects.update(status="error")
    assert shown(alice, made["ImageId"])["State"] == "failed"
    assert alice.deregister_image(ImageId=made["ImageId"])["Return"] is True
    assert Snapshot.objects.exists()


@each_row(
    ("arguments", "code"),
    [
        ({"ImageLocation": "bucket/manifest.xml"}, "UnsupportedOperation"),
        ({"VirtualizationType": "paravirtual"}, "UnsupportedOperation"),
        ({"BootMode": "uefi"}, "UnsupportedOperation"),
        ({"Architecture": "arm64_mac"}, "UnsupportedOperation"),
        ({"KernelId": "aki-1"}, "UnsupportedOperation"),
        ({"BlockDeviceMappings": []}, "MissingParameter"),
        ({"RootDeviceName": "/dev/sdz"}, "InvalidBlockDeviceMapping"),
        ({"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {}}]}, "InvalidBlockDeviceMapping"),
        ({"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 1}}]}, "InvalidBlockDeviceMapping"),
        ({"BlockDeviceMappings": [{"DeviceName": "/dev/sda1"}]}, "InvalidBlockDeviceMapping"),
        ({"size": 1}, "InvalidParameterValue"),
        ({"snapshot": "snap-12345678"}, "InvalidSnapshot.NotFound"),
        ({"Name": "small ☃"}, "InvalidAMIName.Malformed"),
    ],
)
def test_what_cannot_be_registered_leaves_nothing(
    alice: Any, snapshot: str, arguments: dict[str, Any], code: str
) -> None:
    volume = {"SnapshotId": arguments.pop("snapshot", snapshot), "VolumeSize": arguments.pop("size", 2)}
    disks = [{"DeviceName": "/dev/sda1", "Ebs": volume}]
    assert refused(alice.register_image, **{"Name": "golden", "BlockDeviceMappings": disks, **arguments}) == code
    assert Image.objects.count() == 1


def test_an_image_whose_data_finds_no_room_is_not_left(
    alice: Any, snapshot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "has_room", lambda more: False)
    disks = [{"DeviceName": "/dev/sda1", "Ebs": {"SnapshotId": snapshot}}]
    assert refused(alice.register_image, Name="golden", BlockDeviceMappings=disks) == "Unavailable"
    assert names_of(alice) == ["small"]


def test_another_projects_snapshot_makes_no_image(charlie: Any, snapshot: str) -> None:
    disks = [{"DeviceName": "/dev/sda1", "Ebs": {"SnapshotId": snapshot}}]
    assert refused(charlie.register_image, Name="golden", BlockDeviceMappings=disks) == "InvalidSnapshot.NotFound"


def permissions(client: Any, image: str) -> list[dict[str, str]]:
    launch_permissions = client.describe_image_attribute(ImageId=image, Attribute="launchPermission")[
        "LaunchPermissions"
    ]
    return list(launch_permissions)


@pytest.mark.slow
def test_launch_permissions_are_visibility_and_members(alice: Any, charlie: Any, cloud: Cloud, people: People) -> None:
    image, theirs = make(people.alice.project_id, "web"), people.charlie.project_id.hex
    assert permissions(alice, image) == []
    alice.modify_image_attribute(ImageId=image, LaunchPermission={"Add": [{"UserId": theirs}]})
    alice.modify_image_attribute(
        ImageId=image, Attribute="launchPermission", OperationType="add", UserIds=[theirs, people.alice.project_id.hex]
    )
    assert permissions(alice, image) == [{"UserId": theirs}]
    assert names_of(charlie, ExecutableUsers=["self"]) == names_of(alice, ExecutableUsers=[theirs]) == ["web"]
    for call in (charlie.modify_image_attribute, charlie.reset_image_attribute):
        given = {"ImageId": image, "Attribute": "launchPermission"}
        assert refused(call, **given) == "AuthFailure"
    assert refused(charlie.describe_image_attribute, ImageId=image, Attribute="launchPermission") == "AuthFailure"
    assert refused(charlie.deregister_image, ImageId=image) == "AuthFailure"
    assert charlie.describe_image_attribute(ImageId=image, Attribute="description")["Description"] == {"Value": ""}
    alice.modify_image_attribute(ImageId=image, LaunchPermission={"Remove": [{"UserId": theirs}]})
    assert (permissions(alice, image), names_of(charlie)) == ([], ["small"])
    code = refused(charlie.describe_image_attribute, ImageId=image, Attribute="launchPermission")
    assert code == "InvalidAMIID.NotFound"


def test_members_of_an_earlier_time_do_not_come_back(alice: Any, cloud: Cloud, people: People) -> None:
    image, other = make(people.alice.project_id, "web", visibility="shared"), people.operator.project_id.hex
    row = Image.objects.get(name="web")
    add_member(people.alice.context, row.id, people.charlie.project_id.hex)
    Image.objects.filter(pk=row.pk).update(visibility="private")
    alice.modify_image_attribute(ImageId=image, LaunchPermission={"Add": [{"UserId": other}]})
    assert permissions(alice, image) == [{"UserId": other}]
    alice.reset_image_attribute(ImageId=image, Attribute="launchPermission")
    assert (permissions(alice, image), Image.objects.get(pk=row.pk).visibility) == ([], "private")
    assert not ImageMember.objects.exists()


def test_who_may_make_images_public_does_so(alice: Any, boto: Boto, cloud: Cloud, people: People) -> None:
    own, theirs = make(people.alice.project_id, "web"), make(people.operator.project_id, "base")
    everybody = {"Add": [{"Group": "all"}]}
    assert refused(alice.modify_image_attribute, ImageId=own, LaunchPermission=everybody) == "UnauthorizedOperation"
    operator = boto(people.operator)
    operator.modify_image_attribute(ImageId=theirs, LaunchPermission=everybody)
    assert (permissions(operator, theirs), names_of(alice, ExecutableUsers=["all"])) == (
        [{"Group": "all"}], ["small", "base"],
    )  # fmt: skip
    one = {"Add": [{"UserId": people.alice.project_id.hex}]}
    assert refused(operator.modify_image_attribute, ImageId=theirs, LaunchPermission=one) == "UnsupportedOperation"
    operator.modify_image_attribute(
        ImageId=theirs, Attribute="launchPermission", OperationType="remove", UserGroups=["all"]
    )
    assert permissions(operator, theirs) == []


@each_row(
    ("arguments", "code"),
    [
        ({}, MIXED),
        ({"Attribute": "description"}, "MissingParameter"),
        ({"Attribute": "imdsSupport", "Value": "v2.0"}, "InvalidParameterValue"),
        ({"Attribute": "launchPermission"}, "MissingParameter"),
        ({"Attribute": "launchPermission", "UserIds": ["a"]}, "MissingParameter"),
        ({"Description": {"Value": "x"}, "LaunchPermission": {"Add": [{"Group": "all"}]}}, MIXED),
        ({"LaunchPermission": {"Add": [{"UserId": "12345"}]}}, "InvalidAMIAttributeItemValue"),
        ({"LaunchPermission": {"Add": [{"UserId": "f" * 32}]}}, "InvalidAMIAttributeItemValue"),
        ({"LaunchPermission": {"Add": [{"OrganizationArn": "arn:x"}]}}, "UnsupportedOperation"),
        ({"OrganizationArns": ["arn:x"]}, "UnsupportedOperation"),
        (
            {"Attribute": "launchPermission", "OperationType": "add", "UserGroups": ["some"]},
            "InvalidAMIAttributeItemValue",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_changed_of_an_image(
    alice: Any, cloud: Cloud, people: People, arguments: dict[str, Any], code: str
) -> None:
    image = make(people.alice.project_id, "web")
    assert refused(alice.modify_image_attribute, ImageId=image, **arguments) == code
    assert Image.objects.get(name="web").visibility == "private"


def test_descriptions_and_the_other_attributes(alice: Any, cloud: Cloud, people: People) -> None:
    image = make(people.alice.project_id, "web", properties={"kept": "yes"})
    alice.modify_image_attribute(ImageId=image, Description={"Value": "new"})
    assert shown(alice, image)["Description"] == "new"
    alice.modify_image_attribute(ImageId=image, Attribute="description", Value="")
    assert Image.objects.get(name="web").properties == {"kept": "yes"}
    for name, key in (("kernel", "KernelId"), ("bootMode", "BootMode"), ("productCodes", "ProductCodes"),
                      ("blockDeviceMapping", "BlockDeviceMappings")):  # fmt: skip
        assert key in alice.describe_image_attribute(ImageId=image, Attribute=name)


@pytest.mark.slow
def test_an_image_is_disabled_protected_and_ended(alice: Any, bob: Any, cloud: Cloud, people: People) -> None:
    image = make(people.alice.project_id, "web", visibility="shared")
    add_member(people.alice.context, Image.objects.get(name="web").id, people.charlie.project_id.hex)
    alice.disable_image(ImageId=image)
    assert (shown(alice, image)["State"], permissions(alice, image)) == ("disabled", [])
    assert (names_of(alice), names_of(alice, IncludeDisabled=True)) == (["small"], ["small", "web"])
    alice.enable_image(ImageId=image)
    alice.enable_image_deregistration_protection(ImageId=image)
    assert shown(alice, image)["DeregistrationProtection"] == "enabled"
    assert refused(alice.deregister_image, ImageId=image) == "OperationNotPermitted"
    alice.disable_image_deregistration_protection(ImageId=image)
    assert refused(bob.deregister_image, ImageId=image) == "UnauthorizedOperation"
    alice.deregister_image(ImageId=image)
    assert Image.objects.get(name="web").status == "deleted"
    pending = make(people.alice.project_id, "new", status="queued")
    assert refused(alice.disable_image, ImageId=pending) == "InvalidAMIID.Unavailable"
    assert refused(alice.copy_image, SourceImageId=image, SourceRegion="x", Name="copy") == "InvalidAction"


def test_tags_of_an_image_are_its_owners(alice: Any, charlie: Any, cloud: Cloud, people: People) -> None:
    image = make(people.alice.project_id, "web", visibility="public")
    alice.create_tags(Resources=[image], Tags=TAGS)
    assert (shown(alice, image)["Tags"], shown(charlie, image)["Tags"]) == (TAGS, [])
    assert refused(charlie.create_tags, Resources=[image], Tags=TAGS) == "InvalidAMIID.NotFound"
    assert names_of(charlie, Filters=[{"Name": "tag:team", "Values": ["red"]}]) == []


@pytest.mark.slow
def test_instances_show_the_images_that_the_project_may_use(alice: Any, people: People) -> None:
    mine = make(people.alice.project_id, "mine")
    theirs = make(people.charlie.project_id, "theirs")
    for number, image in enumerate((mine, theirs)):
        put_server(people.alice, f"s{number}", age=number, image_id=ids.resources_of("ami", [image])[image])
    own, other = alice.describe_instance_image_metadata()["InstanceImageMetadata"]
    assert (own["State"]["Name"], own["OwnerId"]) == ("running", people.alice.project_id.hex)
    image = own["ImageMetadata"]
    assert (image["ImageId"], image["Name"], image["State"], image["IsPublic"]) == (mine, "mine", "available", False)
    assert other["ImageMetadata"] == {"ImageId": theirs}
    allowed = [{"Name": "image-allowed", "Values": ["true"]}]
    first = alice.describe_instance_image_metadata(MaxResults=1)
    assert first["InstanceImageMetadata"] == [own]
    assert alice.describe_instance_image_metadata(NextToken=first["NextToken"])["InstanceImageMetadata"] == [other]
    assert alice.describe_instance_image_metadata(Filters=allowed)["InstanceImageMetadata"] == [own]
