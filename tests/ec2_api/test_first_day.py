"""What users of boto3, Terraform and Ansible do on their first day, and expect to be as in AWS."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError

from provisioning.compute.models import BlockDevice, Flavor, Instance
from provisioning.ec2 import ids
from provisioning.network import services
from provisioning.network.models import Port
from tests.ec2_api.conftest import refused
from tests.ec2_api.test_instances import launched, run, shown
from tests.support.clouds import Cloud
from tests.support.standing import standing

pytestmark = pytest.mark.slow


@pytest.fixture
@standing
def instance(alice: Any, cloud: Cloud) -> str:
    return launched(alice, cloud)


def found(boto: Any, name: str, *values: str) -> list[str]:
    reservations = boto.describe_instances(Filters=[{"Name": name, "Values": list(values)}])["Reservations"]
    return [each["InstanceId"] for reservation in reservations for each in reservation["Instances"]]


def test_instances_are_found_by_their_interfaces(alice: Any, instance: str) -> None:
    shape = shown(alice, instance)
    (interface,) = shape["NetworkInterfaces"]
    filters = {
        "addresses.private-ip-address": shape["PrivateIpAddress"],
        "addresses.primary": "true",
        "attachment.attachment-id": interface["Attachment"]["AttachmentId"],
        "attachment.device-index": "0",
        "attachment.instance-id": instance,
        "attachment.status": "attached",
        "availability-zone": "nova",
        "group-id": interface["Groups"][0]["GroupId"],
        "group-name": "defau*",
        "owner-id": interface["OwnerId"],
        "requester-managed": "false",
        "status": "in-use",
    }
    for name, value in filters.items():
        assert found(alice, f"network-interface.{name}", value) == [instance], name
        assert found(alice, f"network-interface.{name}", "other") == [], name
    for name in ("addresses.association.public-ip", "association.public-ip", "ipv6-addresses.ipv6-address"):
        assert found(alice, f"network-interface.{name}", "*") == [], name
    assert found(alice, "hibernation-options.configured", "false") == [instance]
    assert found(alice, "iam-instance-profile.arn", "*") == []


def test_what_shall_not_be_and_is_not_is_no_reason_to_refuse(alice: Any, cloud: Cloud) -> None:
    """Terraform says of each switch that it is off."""
    off = {"DisableApiStop": False, "EnclaveOptions": {"Enabled": False}, "EnablePrimaryIpv6": False}
    assert run(alice, cloud, **off)["Instances"]
    for name, value in off.items():
        requested: Any = {"Enabled": True} if value else True
        assert refused(run, boto=alice, cloud=cloud, **{name: requested}) == "UnsupportedOperation"


def test_attributes_may_be_set_to_what_they_are(alice: Any, cloud: Cloud, instance: str) -> None:
    modify = alice.modify_instance_attribute
    for name in ("EbsOptimized", "EnaSupport", "DisableApiStop"):
        modify(InstanceId=instance, **{name: {"Value": False}})
        assert refused(modify, InstanceId=instance, **{name: {"Value": True}}) == "UnsupportedOperation"
    modify(InstanceId=instance, InstanceType={"Value": cloud.small.name})
    modify(InstanceId=instance, Attribute="instanceType", Value=cloud.small.name)
    assert refused(modify, InstanceId=instance, InstanceType={"Value": "m1.big"}) == "IncorrectInstanceState"


def test_the_check_of_sources_is_that_of_the_one_interface(alice: Any, people: Any, instance: str) -> None:
    modify = alice.modify_instance_attribute
    modify(InstanceId=instance, SourceDestCheck={"Value": True})
    port = Port.objects.get(device_id__isnull=False, project_id=people.alice.project_id)
    assert refused(modify, InstanceId=instance, SourceDestCheck={"Value": False}) in {
        "UnauthorizedOperation",  # a network of others
        "UnsupportedOperation",  # in groups
    }
    port.refresh_from_db()
    assert port.port_security_enabled


def test_tags_go_with_what_they_are_of(alice: Any) -> None:
    tagged = [{"ResourceType": "vpc", "Tags": [{"Key": "a", "Value": "b"}]}]
    vpc = alice.create_vpc(CidrBlock="10.9.0.0/16", TagSpecifications=tagged)["Vpc"]["VpcId"]
    assert [each["ResourceId"] for each in alice.describe_tags()["Tags"]] == [vpc]
    alice.delete_vpc(VpcId=vpc)
    assert alice.describe_tags()["Tags"] == []


def test_an_interface_without_a_subnet_is_on_the_usual_network(alice: Any, cloud: Cloud) -> None:
    requested = [{"DeviceIndex": 0, "AssociatePublicIpAddress": False}]
    instance = launched(alice, cloud, NetworkInterfaces=requested)
    assert shown(alice, instance)["SubnetId"] == ids.id_of("subnet", cloud.network.subnets.get().id)
    requested[0]["PrivateIpAddress"] = "10.20.0.9"
    assert refused(run, boto=alice, cloud=cloud, NetworkInterfaces=requested) == "MissingParameter"


def test_with_several_networks_a_subnet_must_be_specified(alice: Any, cloud: Cloud, people: Any) -> None:
    services.create_subnet(services.create_network(people.alice.project_id, "net"), "10.44.0.0/24")
    with pytest.raises(ClientError, match=r"VPCIdNotSpecified.*specify a SubnetId"):
        run(alice, cloud)


def test_the_image_of_a_volume_is_that_of_its_instance(alice: Any, cloud: Cloud, instance: str) -> None:
    """Terraform replaces an instance whose image differs from the requested one."""
    image = ids.id_of("ami", cloud.image.id)
    Instance.objects.update(image_id=None)
    BlockDevice.objects.create(
        instance=Instance.objects.get(), source_type="image", destination_type="volume", source_id=cloud.image.id,
        volume_id=uuid.uuid4(), boot_index=0, device_name="/dev/vda",
    )  # fmt: skip
    assert shown(alice, instance)["ImageId"] == image
    assert found(alice, "image-id", image) == [instance]


def test_a_type_may_be_set_to_an_alias_of_what_it_is(alice: Any, cloud: Cloud, instance: str) -> None:
    Flavor.objects.filter(pk=cloud.small.pk).update(extra_specs={"ec2:alias": "t2.micro"})
    alice.modify_instance_attribute(InstanceId=instance, InstanceType={"Value": "t2.micro"})
    assert refused(alice.modify_instance_attribute, InstanceId=instance, InstanceType={"Value": "t2.none"}) == (
        "InvalidParameterValue"
    )


def test_refusals_name_things_by_their_ids(alice: Any, instance: str) -> None:
    alice.modify_instance_attribute(InstanceId=instance, DisableApiTermination={"Value": True})
    with pytest.raises(ClientError, match=instance):
        alice.terminate_instances(InstanceIds=[instance])
    assert alice.describe_instances(InstanceIds=[instance])["Reservations"]
