"""Regions, zones, instance types and account attributes."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from django.conf import settings

from provisioning.compute.models import Flavor
from provisioning.hosts.models import Host
from tests.ec2_api.conftest import code_of
from tests.support.clouds import Cloud


def test_the_region_is_this_cloud(alice: Any) -> None:
    assert alice.describe_regions(RegionNames=["RegionOne"])["Regions"] == [
        {"RegionName": "RegionOne", "Endpoint": f"{settings.PUBLIC_URL}/ec2/", "OptInStatus": "opt-in-not-required"}
    ]
    assert alice.describe_regions(Filters=[{"Name": "region-name", "Values": ["Region?*", "x"]}])["Regions"]
    assert not alice.describe_regions(Filters=[{"Name": "region-name", "Values": ["region*"]}])["Regions"]


def test_zones_are_those_of_the_hosts(alice: Any, cloud: Cloud) -> None:
    zone = alice.describe_availability_zones()["AvailabilityZones"][0]
    assert (zone["ZoneName"], zone["State"], zone["RegionName"]) == ("nova", "available", "RegionOne")
    with pytest.raises(ClientError) as error:
        alice.describe_availability_zones(ZoneNames=["moon"])
    assert code_of(error) == "InvalidParameterValue"


def test_instance_types_are_flavors_by_name_or_alias(alice: Any, cloud: Cloud) -> None:
    Flavor.objects.filter(pk=cloud.small.pk).update(extra_specs={"ec2:alias": "t2.micro, t3.micro"})
    (instance_type,) = alice.describe_instance_types(InstanceTypes=["t3.micro"])["InstanceTypes"]
    assert instance_type["InstanceType"] == cloud.small.name
    assert instance_type["VCpuInfo"] == {"DefaultVCpus": cloud.small.vcpus}
    assert instance_type["MemoryInfo"] == {"SizeInMiB": cloud.small.memory_mb}
    assert instance_type["PlacementGroupInfo"]["SupportedStrategies"], "Terraform's data source reads it"
    with pytest.raises(ClientError) as error:
        alice.describe_instance_types(InstanceTypes=["m5.huge"])
    assert code_of(error) == "InvalidInstanceType"


def test_pages_of_instance_types_have_each_once(alice: Any, cloud: Cloud) -> None:
    names = {flavor.name for flavor in Flavor.objects.filter(is_public=True)}
    pages = alice.get_paginator("describe_instance_types").paginate(PaginationConfig={"PageSize": 1})
    seen = [each["InstanceType"] for page in pages for each in page["InstanceTypes"]]
    assert sorted(seen) == sorted(names)
    for arguments in ({"MaxResults": 0}, {"MaxResults": 1001}, {"NextToken": "xyz"}, {"NextToken": "W10="}):
        with pytest.raises(ClientError) as error:
            alice.describe_instance_types(**arguments)
        assert code_of(error) == "InvalidParameterValue"


def test_types_are_offered_in_the_region_and_in_each_zone(alice: Any, cloud: Cloud) -> None:
    filters = [{"Name": "instance-type", "Values": [cloud.small.name]}]
    offered = alice.describe_instance_type_offerings(LocationType="availability-zone", Filters=filters)
    assert offered["InstanceTypeOfferings"] == [
        {"InstanceType": cloud.small.name, "LocationType": "availability-zone", "Location": "nova"}
    ]


def test_pages_of_offers_have_each_type_in_each_zone_once(alice: Any, cloud: Cloud) -> None:
    Host.objects.create(name="m1", hypervisor_hostname="m1", availability_zone="moon")
    zones = {"LocationType": "availability-zone", "PaginationConfig": {"PageSize": 2}}
    pages = list(alice.get_paginator("describe_instance_type_offerings").paginate(**zones))
    seen = [(each["InstanceType"], each["Location"]) for page in pages for each in page["InstanceTypeOfferings"]]
    names = Flavor.objects.filter(is_public=True).values_list("name", flat=True)
    assert sorted(seen) == sorted((name, zone) for name in names for zone in ("moon", "nova"))
    assert all(len(page["InstanceTypeOfferings"]) == 2 for page in pages[:-1])


def test_account_attributes_are_the_limits(alice: Any) -> None:
    result = alice.describe_account_attributes(AttributeNames=["max-instances", "supported-platforms"])
    values = {
        each["AttributeName"]: each["AttributeValues"][0]["AttributeValue"] for each in result["AccountAttributes"]
    }
    assert values == {"max-instances": "10", "supported-platforms": "VPC"}
