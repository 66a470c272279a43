"""Regions, availability zones, instance types, account limits, and prefix lists: the address groups of the Network API,
which are read-only in EC2.
"""

from collections.abc import Callable, Sequence
from typing import Any

from django.db.models import QuerySet, Value

from portal.api.ec2.describe import NOTHING, Column, Described, Filter, Listed, members, page
from portal.api.ec2.frame import Call, Ec2Error, Shape, action, errors, names
from provisioning.compute import selectors as compute
from provisioning.compute.models import Flavor
from provisioning.hosts import selectors as hosts
from provisioning.network import selectors
from provisioning.network.models import AddressGroup
from provisioning.network.selectors.vpcs import default_network
from provisioning.quotas import selectors as quotas

ALIAS = "ec2:alias"
"""Extra spec with comma-separated aliases of a flavor (``t2.micro,t3.micro``)."""
NO_OPT_IN = "opt-in-not-required"
REGION = "region"


def _regions(call: Call) -> list[Shape]:
    """Return the only region of this cloud."""
    _check_known("region", call.get("RegionNames", []), [call.region], "InvalidParameterValue")
    return [{"RegionName": call.region, "Endpoint": call.endpoint, "OptInStatus": NO_OPT_IN}]


DESCRIBE_REGIONS = Listed(
    action="DescribeRegions",
    rule="identity:list_regions",
    member="Regions",
    takes="RegionNames AllRegions",
    paged=False,
    items=_regions,
    filters={"region-name": "RegionName", "endpoint": "Endpoint", "opt-in-status": "OptInStatus"},
)


def _zones(call: Call) -> list[Shape]:
    """Return the zones that have a host."""
    zones: list[Shape] = [
        {
            "ZoneName": zone,
            "ZoneId": zone,
            "State": "available" if enabled else "unavailable",
            "RegionName": call.region,
            "GroupName": call.region,
            "GroupLongName": call.region,
            "NetworkBorderGroup": call.region,
            "ZoneType": "availability-zone",
            "OptInStatus": NO_OPT_IN,
            "Messages": [],
        }
        for zone, enabled in sorted(hosts.zones().items())
    ]
    existing = [zone["ZoneName"] for zone in zones]
    for name in ("ZoneNames", "ZoneIds"):
        requested = call.get(name, [])
        _check_known("availability zone", requested, existing, "InvalidParameterValue")
        zones = [zone for zone in zones if not requested or zone["ZoneName"] in requested]
    return zones


DESCRIBE_AVAILABILITY_ZONES = Listed(
    action="DescribeAvailabilityZones",
    rule="os_compute_api:os-availability-zone:list",
    member="AvailabilityZones",
    takes="ZoneNames ZoneIds AllAvailabilityZones",
    paged=False,
    items=_zones,
    filters={
        **members("ZoneName ZoneId State RegionName GroupName GroupLongName ZoneType OptInStatus"),
        "message": NOTHING,
    },
)


def flavor_of_type(call: Call, instance_type: str) -> Flavor:
    """Return the flavor of this name or alias. Raises Ec2Error InvalidInstanceType."""
    flavors = compute.flavors_for(call.context)
    for flavor in flavors:
        if flavor.name == instance_type:
            return flavor
    for flavor in flavors:
        if instance_type in aliases_of(flavor):
            return flavor
    raise Ec2Error("InvalidParameterValue", f"Invalid value '{instance_type[:120]}' for InstanceType.")


def aliases_of(flavor: Flavor) -> list[str]:
    return [name.strip() for name in str(flavor.extra_specs.get(ALIAS, "")).split(",") if name.strip()]


def _flavors(call: Call) -> QuerySet[Flavor]:
    """Return the flavors that the project may use, or those with the specified names or aliases. Raises Ec2Error."""
    rows, requested = compute.visible_flavors(call.context), set(call.get("InstanceTypes", []))
    if not requested:
        return rows
    types = {flavor.pk: {flavor.name, *aliases_of(flavor)} for flavor in rows}
    _check_known("instance type", call.get("InstanceTypes"), set().union(*types.values()), "InvalidInstanceType")
    return rows.filter(pk__in=[key for key, each in types.items() if each & requested])


def _type(flavor: Flavor) -> Shape:
    shape: Shape = {
        "InstanceType": flavor.name,
        "CurrentGeneration": True,
        "FreeTierEligible": False,
        "SupportedUsageClasses": ["on-demand"],
        "SupportedRootDeviceTypes": ["ebs", "instance-store"],
        "SupportedVirtualizationTypes": ["hvm"],
        "BareMetal": False,
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "VCpuInfo": {"DefaultVCpus": flavor.vcpus},
        "MemoryInfo": {"SizeInMiB": flavor.memory_mb},
        "InstanceStorageSupported": flavor.root_gb > 0,
        "EbsInfo": {
            "EbsOptimizedSupport": "unsupported",
            "EncryptionSupport": "supported",
            "NvmeSupport": "unsupported",
        },
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "spread"]},
        "NetworkInfo": {"Ipv6Supported": True, "EnaSupport": "unsupported", "EfaSupported": False},
        "HibernationSupported": False,
        "BurstablePerformanceSupported": False,
        "DedicatedHostsSupported": False,
        "AutoRecoverySupported": False,
    }
    if flavor.root_gb:
        shape["InstanceStorageInfo"] = {
            "TotalSizeInGB": flavor.root_gb + flavor.ephemeral_gb,
            "Disks": [
                {"SizeInGB": size, "Count": 1, "Type": "hdd"} for size in (flavor.root_gb, flavor.ephemeral_gb) if size
            ],
        }
    return shape


DESCRIBE_INSTANCE_TYPES = Described(
    action="DescribeInstanceTypes",
    rule="novella:flavors:index",
    member="InstanceTypes",
    takes="InstanceTypes",
    missing="InvalidInstanceType",
    rows=_flavors,
    shape=lambda call, flavors: [_type(flavor) for flavor in flavors],
    order=("name",),
    tags=None,
    filters={
        "instance-type": Column("InstanceType", "name"),
        **members(
            "CurrentGeneration FreeTierEligible BareMetal HibernationSupported BurstablePerformanceSupported "
            "DedicatedHostsSupported InstanceStorageSupported"
        ),
        "instance-storage-info.total-size-in-gb": "InstanceStorageInfo.TotalSizeInGB",
        "memory-info.size-in-mib": Column("MemoryInfo.SizeInMiB", "memory_mb"),
        "vcpu-info.default-vcpus": Column("VCpuInfo.DefaultVCpus", "vcpus"),
        "processor-info.supported-architecture": "ProcessorInfo.SupportedArchitectures",
        "supported-root-device-type": "SupportedRootDeviceTypes",
        "supported-usage-class": "SupportedUsageClasses",
        "supported-virtualization-type": "SupportedVirtualizationTypes",
        "network-info.ipv6-supported": "NetworkInfo.Ipv6Supported",
    },
)


def _offered(call: Call) -> tuple[QuerySet[Any], ...]:
    """Return the flavors at each location: the region, or every zone. All zones have the same flavors."""
    where = call.get("LocationType", REGION)
    if where not in {REGION, "availability-zone", "availability-zone-id"}:
        raise errors.invalid_value("LocationType", where)
    places = [call.region] if where == REGION else hosts.availability_zones()
    flavors = compute.visible_flavors(call.context)
    return tuple(
        flavors.annotate(number=Value(number), place=Value(place), places=Value(where))
        for number, place in enumerate(places)
    )


DESCRIBE_INSTANCE_TYPE_OFFERINGS = Described(
    action="DescribeInstanceTypeOfferings",
    rule="os_compute_api:os-availability-zone:list",
    member="InstanceTypeOfferings",
    takes="LocationType",
    rows=_offered,
    shape=lambda call, flavors: [
        {"InstanceType": flavor.name, "LocationType": flavor.places, "Location": flavor.place} for flavor in flavors
    ],
    order=("number", "name"),
    tags=None,
    filters={"instance-type": Column("InstanceType", "name"), "location": "Location"},
)


@action("DescribeAccountAttributes", "os_compute_api:limits", takes="AttributeNames")
def describe_account_attributes(call: Call) -> Shape:
    """Show the limits of the project; an unlimited resource is shown with EC2's largest value."""
    limits, network = quotas.limits_of(call.project_id), default_network(call.context)
    values = {
        "supported-platforms": "VPC",
        "default-vpc": names.VPC.id_of(network.id) if network is not None else "none",
        "max-instances": _limit(limits["instances"]),
        "max-elastic-ips": _limit(limits["floatingips"]),
        "vpc-max-elastic-ips": _limit(limits["floatingips"]),
        "vpc-max-security-groups-per-interface": _limit(limits["security_groups"]),
    }
    requested = call.get("AttributeNames", [])
    return {
        "AccountAttributes": [
            {"AttributeName": name, "AttributeValues": [{"AttributeValue": value}]}
            for name, value in values.items()
            if not requested or name in requested
        ]
    }


def _limit(limit: int) -> str:
    return str(limit if limit >= 0 else 2**31 - 1)


def _check_known(what: str, requested: list[str], existing: Any, code: str) -> None:
    strange = [name for name in requested if name not in existing]
    if strange:
        raise Ec2Error(code, f"Invalid {what}: [{', '.join(strange)[:400]}]")


RULE = "get_address_group"


def _shapes(call: Call, groups: Sequence[AddressGroup]) -> list[Shape]:
    """Return prefix lists with their ranges."""
    ec2_ids = names.PREFIX_LIST.ids_of([group.id for group in groups])
    return [
        {"PrefixListId": ec2_ids[group.id], "PrefixListName": group.name, "Cidrs": group.addresses} for group in groups
    ]


def _managed_shapes(call: Call, groups: Sequence[AddressGroup]) -> list[Shape]:
    """Return prefix lists with their owners."""
    ec2_ids = names.PREFIX_LIST.ids_of([group.id for group in groups])
    return [
        {
            "PrefixListId": ec2_ids[group.id],
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
def get_managed_prefix_list_entries(call: Call) -> Shape:
    """List the ranges of a prefix list."""
    group = names.one(names.PREFIX_LIST, call.arguments["PrefixListId"], selectors.address_groups_for(call.context))
    entries = [{"Cidr": each, "Description": ""} for each in group.addresses]
    shown, token = page(call, entries, lambda entry: (entry["Cidr"], ""))
    return {"Entries": shown, "NextToken": token}
