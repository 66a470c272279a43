"""Instances by boto3: launched, shown, started, stopped, changed, terminated."""

from __future__ import annotations

import base64
import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError

from compute_agent.contract.commands import BuildRequest, RefreshPortsRequest
from portal.api.ec2.actions.every import ACTIONS
from portal.api.ec2.protocol import model
from provisioning.compute.models import Instance
from provisioning.ec2 import ids
from provisioning.identity.services.ec2 import create_ec2_credential
from tests.compute_api.conftest import put_server
from tests.ec2_api.conftest import client, code_of
from tests.support.cast import People
from tests.support.clouds import Cloud
from tests.support.jobs import drain
from tests.support.tables import each_row


def run(boto: Any, cloud: Cloud, **arguments: Any) -> dict[str, Any]:
    request = {
        "ImageId": ids.id_of("ami", cloud.image.id),
        "InstanceType": cloud.small.name,
        "MinCount": 1,
        "MaxCount": 1,
        **arguments,
    }
    made: dict[str, Any] = boto.run_instances(**request)
    return made


def launched(boto: Any, cloud: Cloud, **arguments: Any) -> str:
    made = run(boto, cloud, **arguments)
    cloud.run()
    return str(made["Instances"][0]["InstanceId"])


def shown(boto: Any, instance: str) -> dict[str, Any]:
    result: dict[str, Any] = boto.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
    return result


def refused(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as error:
        call(**arguments)
    return code_of(error)


@pytest.mark.slow
def test_a_launch_is_pending_and_then_runs(alice: Any, cloud: Cloud) -> None:
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "web"}, {"Key": "team", "Value": "red"}]}]
    made = run(alice, cloud, MinCount=2, MaxCount=2, TagSpecifications=tags, UserData="#!/bin/sh\n")
    first = made["Instances"][0]
    assert (first["State"], first["AmiLaunchIndex"]) == ({"Code": 0, "Name": "pending"}, 0)
    assert first["ImageId"] == ids.id_of("ami", cloud.image.id)
    cloud.run()
    (reservation,) = alice.describe_instances()["Reservations"]
    assert reservation["ReservationId"] == made["ReservationId"]
    assert [each["State"]["Name"] for each in reservation["Instances"]] == ["running", "running"]
    result = reservation["Instances"][0]
    assert result["Tags"] == [{"Key": "Name", "Value": "web"}, {"Key": "team", "Value": "red"}]
    assert result["InstanceType"] == cloud.small.name
    assert result["Placement"]["AvailabilityZone"] == "nova"
    interface = result["NetworkInterfaces"][0]
    assert result["PrivateIpAddress"] == interface["PrivateIpAddress"]
    assert result["VpcId"] == interface["VpcId"] == ids.id_of("vpc", cloud.network.id)
    assert [group["GroupName"] for group in result["SecurityGroups"]] == ["default"]
    records = Instance.objects.order_by("launch_index")
    assert [record.name for record in records] == ["web-1", "web-2"]
    assert base64.b64decode(records[0].user_data or "") == b"#!/bin/sh\n"


def test_ids_are_the_beginning_of_uuids_and_others_when_these_are_taken(db: None) -> None:
    first = uuid.uuid4()
    second = uuid.UUID(first.hex[:17] + uuid.uuid4().hex[17:])
    known = ids.keep("i", [first])
    assert known == {first: f"i-{first.hex[:17]}"}
    other = ids.keep("i", [first, second])[second]
    assert other != known[first]
    assert ids.ids_of("i", [second]) == {second: other}
    assert ids.resources_of("i", [other, known[first]]) == {other: second, known[first]: first}


def test_an_id_that_only_the_guest_knows_is_found(alice: Any, charlie: Any, people: People) -> None:
    """A guest reads its id in its metadata, even if no response has contained it before."""
    guest_id = f"i-{put_server(people.alice).id.hex[:17]}"
    assert refused(charlie.describe_instances, InstanceIds=[guest_id]) == "InvalidInstanceID.NotFound"
    assert shown(alice, guest_id)["InstanceId"] == guest_id


def test_a_client_token_launches_once(alice: Any, bob: Any, cloud: Cloud) -> None:
    first = run(alice, cloud, ClientToken="abc")
    again = run(alice, cloud, ClientToken="abc")
    assert first["Instances"] == again["Instances"]
    assert Instance.objects.count() == 1
    assert refused(alice.run_instances, ImageId="ami-1", MinCount=2, MaxCount=2, ClientToken="abc") == (
        "IdempotentParameterMismatch"
    )
    assert refused(lambda: run(bob, cloud, ClientToken="abc")) == "UnauthorizedOperation"


def test_a_refused_launch_leaves_its_token_free(alice: Any, cloud: Cloud) -> None:
    with pytest.raises(ClientError):
        run(alice, cloud, ClientToken="abc", KeyName="nobody's")
    assert run(alice, cloud, ClientToken="abc")["Instances"]


@each_row(
    ("arguments", "code"),
    [
        ({"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({"ImageId": "image"}, "InvalidAMIID.Malformed"),
        ({"InstanceType": "m5.huge"}, "InvalidParameterValue"),
        ({"MinCount": 0}, "InvalidParameterValue"),
        ({"MinCount": 3, "MaxCount": 2}, "InvalidParameterValue"),
        ({"MinCount": 50, "MaxCount": 50}, "InstanceLimitExceeded"),
        ({"KeyName": "nobody's"}, "InvalidKeyPair.NotFound"),
        ({"SecurityGroups": ["nobody's"]}, "InvalidGroup.NotFound"),
        ({"SecurityGroupIds": ["sg-0123456789abcdef0"]}, "InvalidGroup.NotFound"),
        ({"SubnetId": "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"),
        ({"PrivateIpAddress": "10.0.0.7"}, "MissingParameter"),
        ({"Placement": {"AvailabilityZone": "moon"}}, "InvalidParameterValue"),
        ({"Placement": {"Tenancy": "dedicated"}}, "UnsupportedOperation"),
        ({"Monitoring": {"Enabled": True}}, "UnsupportedOperation"),
        ({"LaunchTemplate": {"LaunchTemplateId": "lt-1"}}, "UnsupportedOperation"),
        ({"BlockDeviceMappings": [{"DeviceName": "/dev/sdb"}]}, "InvalidBlockDeviceMapping"),
        (
            {"BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "Ebs": {"DeleteOnTermination": True}}]},
            "MissingParameter",
        ),
        ({"BlockDeviceMappings": [{"DeviceName": "/dev/sdb", "VirtualName": "x"}]}, "InvalidBlockDeviceMapping"),
        ({"TagSpecifications": [{"ResourceType": "vpc", "Tags": []}]}, "InvalidParameterValue"),
        ({"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "aws:x"}]}]}, "InvalidParameterValue"),
        ({"DryRun": True}, "DryRunOperation"),
    ],
)
def test_refused_launches_leave_nothing(alice: Any, cloud: Cloud, arguments: dict[str, Any], code: str) -> None:
    assert refused(lambda: run(alice, cloud, **arguments)) == code
    assert not Instance.objects.exists()


@pytest.mark.slow
def test_power_goes_through_ec2s_states(alice: Any, cloud: Cloud) -> None:
    instance = launched(alice, cloud)
    (stopping,) = alice.stop_instances(InstanceIds=[instance])["StoppingInstances"]
    assert (stopping["PreviousState"]["Name"], stopping["CurrentState"]["Name"]) == ("running", "stopping")
    cloud.run()
    alice.get_waiter("instance_stopped").wait(InstanceIds=[instance], WaiterConfig={"MaxAttempts": 1})
    (stopped,) = alice.stop_instances(InstanceIds=[instance])["StoppingInstances"]
    assert stopped["CurrentState"]["Name"] == "stopped"
    (starting,) = alice.start_instances(InstanceIds=[instance])["StartingInstances"]
    assert (starting["PreviousState"]["Name"], starting["CurrentState"]["Name"]) == ("stopped", "pending")
    cloud.run()
    alice.reboot_instances(InstanceIds=[instance])
    cloud.run()
    alice.get_waiter("instance_running").wait(InstanceIds=[instance], WaiterConfig={"MaxAttempts": 1})
    alice.get_waiter("instance_status_ok").wait(InstanceIds=[instance], WaiterConfig={"MaxAttempts": 1})
    (ending,) = alice.terminate_instances(InstanceIds=[instance])["TerminatingInstances"]
    assert ending["CurrentState"]["Name"] in {"shutting-down", "terminated"}
    cloud.run()
    alice.get_waiter("instance_terminated").wait(InstanceIds=[instance], WaiterConfig={"MaxAttempts": 1})
    assert refused(alice.start_instances, InstanceIds=[instance]) == "IncorrectInstanceState"
    (ended,) = alice.terminate_instances(InstanceIds=[instance])["TerminatingInstances"]
    assert ended["CurrentState"]["Name"] == "terminated"


@pytest.mark.slow
def test_hibernation_suspends_and_starting_resumes(alice: Any, cloud: Cloud) -> None:
    instance = launched(alice, cloud)
    alice.stop_instances(InstanceIds=[instance], Hibernate=True)
    cloud.run()
    assert Instance.objects.get().vm_state == "suspended"
    assert shown(alice, instance)["State"]["Name"] == "stopped"
    alice.start_instances(InstanceIds=[instance])
    cloud.run()
    assert shown(alice, instance)["State"]["Name"] == "running"


@pytest.mark.slow
def test_all_of_the_instances_change_or_none(alice: Any, people: People, cloud: Cloud) -> None:
    good = launched(alice, cloud)
    busy = put_server(people.alice, "busy", task_state="rebooting", host=Instance.objects.get().host)
    both = [good, ids.id_of("i", busy.id)]
    assert refused(alice.stop_instances, InstanceIds=both) == "IncorrectInstanceState"
    assert shown(alice, good)["State"]["Name"] == "running"


@each_row(
    ("columns", "state"),
    [
        ({"vm_state": "building", "task_state": "spawning"}, "pending"),
        ({"vm_state": "error", "launched_at": None}, "terminated"),
        ({"vm_state": "paused", "power_state": 3}, "stopped"),
        ({"vm_state": "shelved_offloaded", "power_state": 4}, "stopped"),
        ({"vm_state": "active", "task_state": "deleting"}, "shutting-down"),
        ({"vm_state": "active", "task_state": "image_snapshot"}, "running"),
        ({"vm_state": "rescued"}, "running"),
        ({"vm_state": "resized", "power_state": 4}, "stopped"),
    ],
)
def test_every_state_is_one_of_ec2s(alice: Any, people: People, columns: dict[str, Any], state: str) -> None:
    instance = put_server(people.alice, **columns)
    assert shown(alice, ids.id_of("i", instance.id))["State"]["Name"] == state


@pytest.mark.slow
def test_others_instances_are_not_there(alice: Any, charlie: Any, cloud: Cloud) -> None:
    instance = launched(alice, cloud)
    assert charlie.describe_instances()["Reservations"] == []
    for call in (
        charlie.describe_instances,
        charlie.start_instances,
        charlie.stop_instances,
        charlie.reboot_instances,
        charlie.terminate_instances,
        charlie.describe_instance_status,
    ):
        assert refused(call, InstanceIds=[instance]) == "InvalidInstanceID.NotFound"
    tags = {"Resources": [instance], "Tags": [{"Key": "a", "Value": "b"}]}
    for call in (charlie.create_tags, charlie.delete_tags):
        assert refused(call, **tags) == "InvalidInstanceID.NotFound"
    for call in (charlie.get_console_output, charlie.get_password_data):
        assert refused(call, InstanceId=instance) == "InvalidInstanceID.NotFound"
    assert refused(alice.describe_instances, InstanceIds=["web"]) == "InvalidInstanceID.Malformed"


@pytest.mark.slow
def test_filters_find_by_tag_state_and_pattern(alice: Any, cloud: Cloud) -> None:
    tagged = launched(
        alice, cloud, TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "web-eu"}]}]
    )
    launched(alice, cloud)

    def found(*filters: tuple[str, list[str]]) -> list[str]:
        answer = alice.describe_instances(Filters=[{"Name": name, "Values": values} for name, values in filters])
        return [each["InstanceId"] for one in answer["Reservations"] for each in one["Instances"]]

    assert found(("tag:Name", ["web-*"])) == [tagged]
    assert found(("tag-key", ["Name"]), ("instance-state-name", ["running", "pending"])) == [tagged]
    assert found(("tag:Name", ["web-?"])) == []
    assert len(found(("instance-state-code", ["16"]))) == 2
    assert len(found(("vpc-id", [ids.id_of("vpc", cloud.network.id)]), ("root-device-type", ["instance-store"]))) == 2
    assert refused(alice.describe_instances, Filters=[{"Name": "colour", "Values": ["x"]}]) == "InvalidParameterValue"


def test_pages_have_each_instance_once(alice: Any, people: People) -> None:
    made = {ids.id_of("i", put_server(people.alice, f"s{number}", age=number).id) for number in range(5)}
    pages = alice.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 2})
    seen = [each["InstanceId"] for page in pages for one in page["Reservations"] for each in one["Instances"]]
    assert len(seen) == 5
    assert set(seen) == made


@pytest.mark.slow
def test_a_list_takes_as_many_queries_for_many_as_for_few(
    alice: Any, people: People, cloud: Cloud, django_assert_max_num_queries: Any
) -> None:
    for _ in range(2):
        launched(alice, cloud, MinCount=3, MaxCount=3)
    alice.describe_instances()
    with django_assert_max_num_queries(22):
        alice.describe_instances()


@pytest.mark.slow
def test_attributes_are_shown_and_changed(alice: Any, cloud: Cloud) -> None:
    instance = launched(alice, cloud, UserData="hello")
    group = alice.describe_instances()["Reservations"][0]["Instances"][0]["SecurityGroups"][0]["GroupId"]
    for name, key in (
        ("instanceType", "InstanceType"),
        ("userData", "UserData"),
        ("disableApiTermination", "DisableApiTermination"),
        ("rootDeviceName", "RootDeviceName"),
        ("blockDeviceMapping", "BlockDeviceMappings"),
        ("groupSet", "Groups"),
        ("sourceDestCheck", "SourceDestCheck"),
        ("kernel", "KernelId"),
        ("instanceInitiatedShutdownBehavior", "InstanceInitiatedShutdownBehavior"),
        ("enaSupport", "EnaSupport"),
        ("ebsOptimized", "EbsOptimized"),
    ):
        assert key in alice.describe_instance_attribute(InstanceId=instance, Attribute=name), name
    data = alice.describe_instance_attribute(InstanceId=instance, Attribute="userData")["UserData"]["Value"]
    assert base64.b64decode(data) == b"hello"
    alice.modify_instance_attribute(InstanceId=instance, DisableApiTermination={"Value": True})
    assert refused(alice.terminate_instances, InstanceIds=[instance]) == "OperationNotPermitted"
    alice.modify_instance_attribute(InstanceId=instance, Attribute="disableApiTermination", Value="false")
    assert not Instance.objects.get().locked
    alice.modify_instance_attribute(InstanceId=instance, Groups=[group])
    assert refused(alice.modify_instance_attribute, InstanceId=instance) == "InvalidParameterCombination"
    for wrong, code in (
        ({"InstanceType": {"Value": "m1.big"}}, "IncorrectInstanceState"),
        ({"InstanceInitiatedShutdownBehavior": {"Value": "terminate"}}, "UnsupportedOperation"),
    ):
        assert refused(alice.modify_instance_attribute, InstanceId=instance, **wrong) == code
    mapping = [{"DeviceName": "/dev/vdz", "Ebs": {"DeleteOnTermination": True}}]
    assert refused(alice.modify_instance_attribute, InstanceId=instance, BlockDeviceMappings=mapping) == (
        "InvalidInstanceAttributeValue"
    )


@pytest.mark.slow
def test_readers_see_and_do_nothing(alice: Any, bob: Any, cloud: Cloud) -> None:
    instance = launched(alice, cloud)
    assert shown(bob, instance)["State"]["Name"] == "running"
    for call in (bob.start_instances, bob.stop_instances, bob.reboot_instances, bob.terminate_instances):
        assert refused(call, InstanceIds=[instance]) == "UnauthorizedOperation"
    assert refused(bob.describe_instance_attribute, InstanceId=instance, Attribute="userData") == (
        "UnauthorizedOperation"
    )


def test_the_password_is_what_the_guest_has_posted(alice: Any, cloud: Cloud) -> None:
    instance = launched(alice, cloud)
    Instance.objects.update(password="c2VjcmV0")
    assert alice.get_password_data(InstanceId=instance)["PasswordData"] == "c2VjcmV0"


@pytest.mark.slow
def test_resources_of_boto3_work(people: People, cloud: Cloud) -> None:
    ec2 = client(*create_ec2_credential(people.alice.user, people.alice.project), kind="resource")
    (instance,) = ec2.create_instances(
        ImageId=ids.id_of("ami", cloud.image.id), InstanceType=cloud.small.name, MinCount=1, MaxCount=1
    )
    instance.create_tags(Tags=[{"Key": "Name", "Value": "db"}])
    cloud.run()
    instance.reload()
    assert instance.state["Name"] == "running"
    assert instance.tags == [{"Key": "Name", "Value": "db"}]
    assert [each.id for each in ec2.instances.filter(Filters=[{"Name": "tag:Name", "Values": ["db"]}])] == [instance.id]
    instance.delete_tags(Tags=[{"Key": "Name", "Value": "other"}])
    assert len(list(ec2.meta.client.describe_tags()["Tags"])) == 1
    instance.delete_tags(Tags=[{"Key": "Name"}])
    assert ec2.meta.client.describe_tags()["Tags"] == []


@pytest.mark.slow
def test_tags_of_what_a_launch_does_not_create_are_no_error(alice: Any, cloud: Cloud) -> None:
    tags = [
        {"ResourceType": kind, "Tags": [{"Key": "Env", "Value": "x"}]} for kind in ("volume", "spot-instances-request")
    ]
    port = alice.create_network_interface(SubnetId=alice.describe_subnets()["Subnets"][0]["SubnetId"])
    own = [{"NetworkInterfaceId": port["NetworkInterface"]["NetworkInterfaceId"], "DeviceIndex": 0}]
    tags.append({"ResourceType": "network-interface", "Tags": [{"Key": "Env", "Value": "x"}]})
    launched(alice, cloud, TagSpecifications=tags, NetworkInterfaces=own)
    assert alice.describe_tags(Filters=[{"Name": "key", "Values": ["Env"]}])["Tags"] == []


def test_a_tag_that_cannot_be_is_refused_before_the_launch(alice: Any, cloud: Cloud) -> None:
    tags = [{"ResourceType": "volume", "Tags": [{"Key": "aws:x", "Value": "y"}]}]
    assert refused(lambda: run(alice, cloud, TagSpecifications=tags)) == "InvalidParameterValue"
    tags = [{"ResourceType": "vpc", "Tags": [{"Key": "x", "Value": "y"}]}]
    assert refused(lambda: run(alice, cloud, TagSpecifications=tags)) == "InvalidParameterValue"
    assert not Instance.objects.exists()


def test_every_action_that_creates_something_takes_its_tags() -> None:
    lacking = [
        name
        for name, action in ACTIONS.items()
        if (shape := model.operation(name).input_shape) is not None
        and "TagSpecifications" in model.members_of(shape)
        and "TagSpecifications" not in action.takes
    ]
    assert lacking == []


@pytest.mark.both_databases("locks")
def test_metadata_options_are_shown_as_they_were_set(alice: Any, cloud: Cloud) -> None:
    usual = {
        "State": "applied", "HttpTokens": "optional", "HttpPutResponseHopLimit": 1, "HttpEndpoint": "enabled",
        "HttpProtocolIpv6": "disabled", "InstanceMetadataTags": "disabled",
    }  # fmt: skip
    first = run(alice, cloud)["Instances"][0]
    assert first["MetadataOptions"] == usual
    required = {"HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": 2}
    second = run(alice, cloud, MetadataOptions=required)["Instances"][0]
    assert second["MetadataOptions"] == usual | required
    modify, identity = alice.modify_instance_metadata_options, first["InstanceId"]
    changed = modify(InstanceId=identity, HttpTokens="required")["InstanceMetadataOptions"]
    assert changed == shown(alice, identity)["MetadataOptions"] == usual | {"HttpTokens": "required"}
    modify(InstanceId=identity, HttpTokens="optional", HttpPutResponseHopLimit=64)
    assert shown(alice, identity)["MetadataOptions"] == usual | {"HttpPutResponseHopLimit": 64}


def test_hosts_know_which_metadata_need_a_token(alice: Any, cloud: Cloud) -> None:
    """From the build on, and at once when it changes."""
    required = {"HttpTokens": "required", "HttpPutResponseHopLimit": 2}
    identity = run(alice, cloud, MetadataOptions=required)["Instances"][0]["InstanceId"]
    drain()
    (build,) = cloud.agents["h1"].take(acknowledge=False)
    assert isinstance(build.body, BuildRequest)
    assert (build.body.instance.metadata_token, build.body.instance.metadata_hops) == (True, 2)
    cloud.run()
    alice.modify_instance_metadata_options(InstanceId=identity, HttpTokens="optional", HttpPutResponseHopLimit=1)
    (command,) = cloud.agents["h1"].take()
    assert isinstance(command.body, RefreshPortsRequest)
    assert (command.body.instance.metadata_token, command.body.instance.metadata_hops) == (False, 1)


@pytest.fixture
def identity(alice: Any, cloud: Cloud) -> str:
    return str(run(alice, cloud)["Instances"][0]["InstanceId"])


@each_row(
    ("options", "code"),
    [
        ({"HttpEndpoint": "disabled"}, "UnsupportedOperation"),
        ({"InstanceMetadataTags": "enabled"}, "UnsupportedOperation"),
        ({"HttpPutResponseHopLimit": 65}, "InvalidParameterValue"),
        ({"HttpTokens": "perhaps"}, "InvalidParameterValue"),
    ],
)
def test_metadata_options_without_effect_are_refused(
    alice: Any, charlie: Any, cloud: Cloud, identity: str, options: dict[str, Any], code: str
) -> None:
    assert refused(lambda: run(alice, cloud, MetadataOptions=options)) == code
    assert refused(alice.modify_instance_metadata_options, InstanceId=identity, **options) == code
    assert Instance.objects.count() == 1
    theirs = {"InstanceId": identity, "HttpTokens": "required"}
    assert refused(charlie.modify_instance_metadata_options, **theirs) == "InvalidInstanceID.NotFound"
