"""Placement groups by boto3: server groups that are created, found, used by launches and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.compute.models import Instance, ServerGroup
from provisioning.quotas.models import QuotaLimit
from tests.ec2_api.conftest import refused
from tests.ec2_api.test_instances import run, shown
from tests.support.cast import People
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db


def test_a_strategy_is_a_policy(alice: Any, charlie: Any, people: People) -> None:
    tags = [{"ResourceType": "placement-group", "Tags": [{"Key": "team", "Value": "red"}]}]
    apart = alice.create_placement_group(GroupName="apart", Strategy="spread", TagSpecifications=tags)["PlacementGroup"]
    near = alice.create_placement_group(GroupName="near")["PlacementGroup"]
    policies = dict(ServerGroup.objects.values_list("name", "policy"))
    assert policies == {"apart": "anti-affinity", "near": "affinity"}
    assert (apart["Strategy"], apart["SpreadLevel"], apart["State"]) == ("spread", "host", "available")
    assert (near["Strategy"], near.get("SpreadLevel")) == ("cluster", None)
    assert apart["GroupArn"].endswith(f":{people.alice.project_id.hex}:placement-group/apart")
    for arguments, names in (
        ({}, ["apart", "near"]),
        ({"GroupIds": [near["GroupId"]]}, ["near"]),
        ({"GroupNames": ["apart"]}, ["apart"]),
        ({"Filters": [{"Name": "strategy", "Values": ["spread"]}]}, ["apart"]),
        ({"Filters": [{"Name": "group-name", "Values": ["n*"]}]}, ["near"]),
        ({"Filters": [{"Name": "tag:team", "Values": ["red"]}]}, ["apart"]),
    ):
        assert [each["GroupName"] for each in alice.describe_placement_groups(**arguments)["PlacementGroups"]] == names
    assert charlie.describe_placement_groups()["PlacementGroups"] == []
    assert refused(charlie.delete_placement_group, GroupName="near") == "InvalidPlacementGroup.Unknown"
    alice.delete_placement_group(GroupName="near")
    assert refused(alice.describe_placement_groups, GroupNames=["near"]) == "InvalidPlacementGroup.Unknown"


def test_a_group_that_the_compute_api_created_has_the_nearest_strategy(alice: Any, people: People) -> None:
    mine = {"project_id": people.alice.project_id, "user_id": people.alice.user_id}
    for policy in ServerGroup.Policy.values:
        ServerGroup.objects.create(**mine, name=policy, policy=policy)
    result = {each["GroupName"]: each["Strategy"] for each in alice.describe_placement_groups()["PlacementGroups"]}
    assert result == {
        "affinity": "cluster",
        "soft-affinity": "cluster",
        "anti-affinity": "spread",
        "soft-anti-affinity": "spread",
    }


def test_requests_that_this_cloud_cannot_fulfil_are_refused(alice: Any, people: People) -> None:
    for code, arguments in (
        ("UnsupportedOperation", {"GroupName": "p", "Strategy": "partition"}),
        ("UnsupportedOperation", {"GroupName": "p", "Strategy": "spread", "SpreadLevel": "rack"}),
        ("InvalidParameterCombination", {"GroupName": "p", "Strategy": "cluster", "SpreadLevel": "host"}),
        ("MissingParameter", {"Strategy": "spread"}),
    ):
        assert refused(alice.create_placement_group, **arguments) == code
    alice.create_placement_group(GroupName="p", Strategy="spread", SpreadLevel="host")
    assert refused(alice.create_placement_group, GroupName="p") == "InvalidPlacementGroup.Duplicate"
    assert ServerGroup.objects.count() == 1
    QuotaLimit.objects.create(project_id=people.alice.project_id, resource="server_groups", limit=1)
    assert refused(alice.create_placement_group, GroupName="q") == "PlacementGroupLimitExceeded"


def test_instances_are_launched_into_a_group(alice: Any, cloud: Cloud) -> None:
    group = alice.create_placement_group(GroupName="near", Strategy="cluster")["PlacementGroup"]
    by_name = run(alice, cloud, Placement={"GroupName": "near"})["Instances"][0]
    by_id = run(alice, cloud, Placement={"GroupId": group["GroupId"]})["Instances"][0]
    run(alice, cloud)
    for instance in (by_name, shown(alice, by_name["InstanceId"]), by_id):
        assert (instance["Placement"]["GroupName"], instance["Placement"]["GroupId"]) == ("near", group["GroupId"])
    reservations = alice.describe_instances(Filters=[{"Name": "placement-group-name", "Values": ["near"]}])[
        "Reservations"
    ]
    ids = {instance["InstanceId"] for each in reservations for instance in each["Instances"]}
    assert ids == {by_name["InstanceId"], by_id["InstanceId"]}
    assert refused(alice.delete_placement_group, GroupName="near") == "InvalidPlacementGroup.InUse"
    assert ServerGroup.objects.count() == 1


def test_a_launch_into_an_unknown_group_leaves_nothing(alice: Any, people: People, cloud: Cloud) -> None:
    mine = {"project_id": people.alice.project_id, "user_id": people.alice.user_id, "policy": "affinity"}
    for _ in range(2):
        ServerGroup.objects.create(**mine, name="twice")
    ServerGroup.objects.create(**mine | {"project_id": people.charlie.project_id}, name="theirs")
    for code, placement in (
        ("InvalidPlacementGroup.Unknown", {"GroupName": "theirs"}),
        ("InvalidPlacementGroup.Duplicate", {"GroupName": "twice"}),
        ("InvalidPlacementGroup.Unknown", {"GroupId": "pg-0123456789abcdef0"}),
        ("InvalidPlacementGroupId.Malformed", {"GroupId": "sg-0123456789abcdef0"}),
        ("InvalidParameterCombination", {"GroupName": "twice", "GroupId": "pg-0123456789abcdef0"}),
        ("UnsupportedOperation", {"GroupName": "twice", "PartitionNumber": 1}),
    ):
        assert refused(lambda placement=placement: run(alice, cloud, Placement=placement)) == code
    assert not Instance.objects.exists()
