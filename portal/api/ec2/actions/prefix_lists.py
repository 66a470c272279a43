"""Prefix lists: the address groups of the Network API, which are read-only in EC2."""

from collections.abc import Callable, Sequence
from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.describe import NOTHING, Column, Described, Filter, Shape, page
from portal.api.ec2.registry import Call, action
from provisioning.ec2 import ids
from provisioning.network import selectors
from provisioning.network.models import AddressGroup

RULE = "get_address_group"


def _shapes(call: Call, groups: Sequence[AddressGroup]) -> list[Shape]:
    """Return prefix lists with their ranges."""
    known = ids.ids_of(names.PREFIX_LIST.prefix, [group.id for group in groups])
    return [
        {"PrefixListId": known[group.id], "PrefixListName": group.name, "Cidrs": group.addresses} for group in groups
    ]


def _managed_shapes(call: Call, groups: Sequence[AddressGroup]) -> list[Shape]:
    """Return prefix lists with their owners."""
    known = ids.ids_of(names.PREFIX_LIST.prefix, [group.id for group in groups])
    return [
        {
            "PrefixListId": known[group.id],
            "PrefixListName": group.name,
            "AddressFamily": "IPv6" if any(":" in each for each in group.addresses) else "IPv4",
            "State": "create-complete",
            "MaxEntries": len(group.addresses),
            "Version": 1,
            "OwnerId": group.project_id.hex,
            "Tags": [],
        }
        for group in groups
    ]


def _described(
    action: str, shape: Callable[[Call, Sequence[AddressGroup]], list[Shape]], owner: Filter
) -> Described[AddressGroup]:
    return Described(
        action=action,
        rule=RULE,
        member="PrefixLists",
        kind=names.PREFIX_LIST,
        ids="PrefixListIds",
        rows=lambda call: selectors.address_groups_for(call.context),
        shape=shape,
        order=("name", "id"),
        tags=None,
        filters={
            "owner-id": owner,
            "prefix-list-id": Column("PrefixListId", "pk", names.PREFIX_LIST),
            "prefix-list-name": Column("PrefixListName", "name"),
        },
    )


DESCRIBE_PREFIX_LISTS = _described("DescribePrefixLists", _shapes, NOTHING)
DESCRIBE_MANAGED_PREFIX_LISTS = _described(
    "DescribeManagedPrefixLists", _managed_shapes, Column("OwnerId", "project_id")
)


@action(
    "GetManagedPrefixListEntries",
    RULE,
    takes="PrefixListId MaxResults NextToken",
    missing=names.PREFIX_LIST.missing,
)
def get_managed_prefix_list_entries(call: Call) -> dict[str, Any]:
    """List the ranges of a prefix list."""
    group = names.one(names.PREFIX_LIST, call.arguments["PrefixListId"], selectors.address_groups_for(call.context))
    entries = [{"Cidr": each, "Description": ""} for each in group.addresses]
    shown, token = page(call, entries, lambda entry: (entry["Cidr"], ""))
    return {"Entries": shown, "NextToken": token}
