"""Lists that clients read beside the resources of this cloud: empty ones, and prefix lists."""

from __future__ import annotations

import re
from typing import Any

import pytest

from portal.api.ec2.actions.every import _LISTS, ACTIONS
from provisioning.network.models import AddressGroup
from tests.ec2_api.conftest import refused
from tests.support.cast import People
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


@each_row("name", _LISTS)
def test_a_list_of_what_is_not_there_is_empty(alice: Any, name: str) -> None:
    method = re.sub("(?<!^)(?=[A-Z])", "_", name).lower()
    assert getattr(alice, method)()[_LISTS[name][1]] == []
    if "NextToken" in ACTIONS[name].takes:
        assert refused(getattr(alice, method), NextToken="nonsense") == "InvalidParameterValue"


def test_volumes_are_not_encrypted_by_default(alice: Any) -> None:
    assert alice.get_ebs_encryption_by_default()["EbsEncryptionByDefault"] is False


def test_prefix_lists_are_address_groups(alice: Any, charlie: Any, people: People) -> None:
    project = people.alice.project_id
    for name, ranges in (("offices", ["10.1.0.0/16", "10.2.0.0/16"]), ("v6", ["fd00::/64"])):
        AddressGroup.objects.create(project_id=project, name=name, addresses=ranges)
    offices, other = alice.describe_prefix_lists()["PrefixLists"]
    assert (offices["PrefixListName"], offices["Cidrs"]) == ("offices", ["10.1.0.0/16", "10.2.0.0/16"])
    managed = alice.describe_managed_prefix_lists(PrefixListIds=[other["PrefixListId"]])["PrefixLists"]
    assert [(each["PrefixListName"], each["AddressFamily"], each["OwnerId"]) for each in managed] == [
        ("v6", "IPv6", project.hex)
    ]
    named = [{"Name": "prefix-list-name", "Values": ["off*"]}]
    assert alice.describe_prefix_lists(Filters=named)["PrefixLists"] == [offices]
    entries = alice.get_managed_prefix_list_entries(PrefixListId=offices["PrefixListId"])["Entries"]
    assert [each["Cidr"] for each in entries] == offices["Cidrs"]
    assert charlie.describe_prefix_lists()["PrefixLists"] == []
    missing = "InvalidPrefixListID.NotFound"
    assert refused(charlie.describe_prefix_lists, PrefixListIds=[offices["PrefixListId"]]) == missing
    assert refused(charlie.get_managed_prefix_list_entries, PrefixListId=offices["PrefixListId"]) == missing
