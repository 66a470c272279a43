"""Prefix lists: the address groups of the Network API, which are read-only in EC2."""

from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.filters import Filterable
from portal.api.ec2.paging import page
from portal.api.ec2.registry import Call, action
from provisioning.ec2 import ids
from provisioning.network import selectors
from provisioning.network.models import AddressGroup

RULE = "get_address_group"
Shape = dict[str, Any]


@action(
    "DescribePrefixLists",
    RULE,
    takes="PrefixListIds Filters MaxResults NextToken",
    missing=names.PREFIX_LIST.missing,
)
def describe_prefix_lists(call: Call) -> dict[str, Any]:
    """List prefix lists with their ranges."""
    shapes: list[Shape] = [
        {"PrefixListId": ec2_id, "PrefixListName": group.name, "Cidrs": group.addresses}
        for ec2_id, group in _read(call).items()
    ]
    return _page(call, shapes)


@action(
    "DescribeManagedPrefixLists",
    RULE,
    takes="PrefixListIds Filters MaxResults NextToken",
    missing=names.PREFIX_LIST.missing,
)
def describe_managed_prefix_lists(call: Call) -> dict[str, Any]:
    """List prefix lists with their owners."""
    shapes: list[Shape] = [
        {
            "PrefixListId": ec2_id,
            "PrefixListName": group.name,
            "AddressFamily": "IPv6" if any(":" in each for each in group.addresses) else "IPv4",
            "State": "create-complete",
            "MaxEntries": len(group.addresses),
            "Version": 1,
            "OwnerId": group.project_id.hex,
            "Tags": [],
        }
        for ec2_id, group in _read(call).items()
    ]
    return _page(call, shapes)


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


def _read(call: Call) -> dict[str, AddressGroup]:
    """Return EC2 id → address group, for the prefix lists that the request specifies, by default for all."""
    rows, given = selectors.address_groups_for(call.context), call.get("PrefixListIds", [])
    found = list(names.fetched(names.PREFIX_LIST, given, names.of_keys(rows), lambda group: group.id))
    known = ids.ids_of(names.PREFIX_LIST.prefix, [group.id for group in found])
    return {known[group.id]: group for group in found}


def _page(call: Call, shapes: list[Shape]) -> dict[str, Any]:
    passing = _FILTERS.passing(shapes, call.get("Filters", []))
    shown, token = page(call, passing, lambda shape: (shape["PrefixListName"], shape["PrefixListId"]))
    return {"PrefixLists": shown, "NextToken": token}


_FILTERS: Filterable[Shape] = Filterable(
    {
        "owner-id": lambda shape: shape.get("OwnerId"),
        "prefix-list-id": lambda shape: shape["PrefixListId"],
        "prefix-list-name": lambda shape: shape["PrefixListName"],
    }
)
