"""Regions, availability zones, instance types and account limits."""

from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.filters import Filterable
from portal.api.ec2.paging import page
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from provisioning.compute import selectors as compute
from provisioning.compute.models import Flavor
from provisioning.ec2 import ids
from provisioning.hosts import selectors as hosts
from provisioning.network.selectors.vpcs import default_network
from provisioning.quotas import selectors as quotas

ALIAS = "ec2:alias"
"""Extra spec with comma-separated aliases of a flavor (``t2.micro,t3.micro``)."""
NO_OPT_IN = "opt-in-not-required"


@action(
    "DescribeRegions", "identity:list_regions", takes="RegionNames AllRegions Filters", missing="InvalidParameterValue"
)
def describe_regions(call: Call) -> dict[str, Any]:
    """List the only region of this cloud."""
    regions = [{"RegionName": call.region, "Endpoint": call.endpoint, "OptInStatus": NO_OPT_IN}]
    _check_known("region", call.get("RegionNames", []), [call.region], "InvalidParameterValue")
    return {"Regions": _REGION_FILTERS.passing(regions, call.get("Filters", []))}


_REGION_FILTERS: Filterable[dict[str, Any]] = Filterable(
    {
        "region-name": lambda region: region["RegionName"],
        "endpoint": lambda region: region["Endpoint"],
        "opt-in-status": lambda region: region["OptInStatus"],
    }
)


@action(
    "DescribeAvailabilityZones",
    "os_compute_api:os-availability-zone:list",
    takes="ZoneNames ZoneIds AllAvailabilityZones Filters",
)
def describe_availability_zones(call: Call) -> dict[str, Any]:
    """List the zones that have a host."""
    zones: list[dict[str, Any]] = [
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
    known = [zone["ZoneName"] for zone in zones]
    for name in ("ZoneNames", "ZoneIds"):
        wanted = call.get(name, [])
        _check_known("availability zone", wanted, known, "InvalidParameterValue")
        zones = [zone for zone in zones if not wanted or zone["ZoneName"] in wanted]
    return {"AvailabilityZones": _ZONE_FILTERS.passing(zones, call.get("Filters", []))}


_ZONE_FILTERS: Filterable[dict[str, Any]] = Filterable(
    {
        "zone-name": lambda zone: zone["ZoneName"],
        "zone-id": lambda zone: zone["ZoneId"],
        "state": lambda zone: zone["State"],
        "region-name": lambda zone: zone["RegionName"],
        "group-name": lambda zone: zone["GroupName"],
        "group-long-name": lambda zone: zone["GroupLongName"],
        "zone-type": lambda zone: zone["ZoneType"],
        "opt-in-status": lambda zone: zone["OptInStatus"],
        "message": lambda zone: [],
    }
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


@action(
    "DescribeInstanceTypes",
    "novella:flavors:index",
    takes="InstanceTypes Filters MaxResults NextToken",
    missing="InvalidInstanceType",
)
def describe_instance_types(call: Call) -> dict[str, Any]:
    """List the flavors that the project may use."""
    flavors = compute.flavors_for(call.context)
    wanted = call.get("InstanceTypes", [])
    names = {flavor.name for flavor in flavors} | {alias for flavor in flavors for alias in aliases_of(flavor)}
    _check_known("instance type", wanted, names, "InvalidInstanceType")
    chosen = [each for each in flavors if not wanted or {each.name, *aliases_of(each)} & set(wanted)]
    shapes = _TYPE_FILTERS.passing([_type(flavor) for flavor in chosen], call.get("Filters", []))
    shown, token = page(call, shapes, lambda shape: (shape["InstanceType"], ""))
    return {"InstanceTypes": shown, "NextToken": token}


def _type(flavor: Flavor) -> dict[str, Any]:
    shape: dict[str, Any] = {
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
        "PlacementGroupInfo": {"SupportedStrategies": ["spread"]},
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


_TYPE_FILTERS: Filterable[dict[str, Any]] = Filterable(
    {
        "instance-type": lambda shape: shape["InstanceType"],
        "current-generation": lambda shape: shape["CurrentGeneration"],
        "free-tier-eligible": lambda shape: shape["FreeTierEligible"],
        "bare-metal": lambda shape: shape["BareMetal"],
        "hibernation-supported": lambda shape: shape["HibernationSupported"],
        "burstable-performance-supported": lambda shape: shape["BurstablePerformanceSupported"],
        "dedicated-hosts-supported": lambda shape: shape["DedicatedHostsSupported"],
        "instance-storage-supported": lambda shape: shape["InstanceStorageSupported"],
        "instance-storage-info.total-size-in-gb": lambda shape: shape.get("InstanceStorageInfo", {}).get(
            "TotalSizeInGB"
        ),
        "memory-info.size-in-mib": lambda shape: shape["MemoryInfo"]["SizeInMiB"],
        "vcpu-info.default-vcpus": lambda shape: shape["VCpuInfo"]["DefaultVCpus"],
        "processor-info.supported-architecture": lambda shape: shape["ProcessorInfo"]["SupportedArchitectures"],
        "supported-root-device-type": lambda shape: shape["SupportedRootDeviceTypes"],
        "supported-usage-class": lambda shape: shape["SupportedUsageClasses"],
        "supported-virtualization-type": lambda shape: shape["SupportedVirtualizationTypes"],
        "network-info.ipv6-supported": lambda shape: shape["NetworkInfo"]["Ipv6Supported"],
    }
)


@action(
    "DescribeInstanceTypeOfferings",
    "os_compute_api:os-availability-zone:list",
    takes="LocationType Filters MaxResults NextToken",
)
def describe_instance_type_offerings(call: Call) -> dict[str, Any]:
    """List the flavors by location: the region, or every zone. All zones have the same flavors."""
    where = call.get("LocationType", "region")
    if where not in {"region", "availability-zone", "availability-zone-id"}:
        raise errors.invalid_value("LocationType", where)
    places = [call.region] if where == "region" else hosts.availability_zones()
    rows = [
        {"InstanceType": flavor.name, "LocationType": where, "Location": place}
        for flavor in compute.flavors_for(call.context)
        for place in places
    ]
    rows = _OFFERING_FILTERS.passing(rows, call.get("Filters", []))
    shown, token = page(call, rows, lambda row: (row["InstanceType"], row["Location"]))
    return {"InstanceTypeOfferings": shown, "NextToken": token}


_OFFERING_FILTERS: Filterable[dict[str, Any]] = Filterable(
    {"instance-type": lambda row: row["InstanceType"], "location": lambda row: row["Location"]}
)


@action("DescribeAccountAttributes", "os_compute_api:limits", takes="AttributeNames")
def describe_account_attributes(call: Call) -> dict[str, Any]:
    """Show the limits of the project; an unlimited resource is shown with EC2's largest value."""
    limits, network = quotas.limits_of(call.project_id), default_network(call.context)
    values = {
        "supported-platforms": "VPC",
        "default-vpc": ids.id_of(names.VPC.prefix, network.id) if network is not None else "none",
        "max-instances": _limit(limits["instances"]),
        "max-elastic-ips": _limit(limits["floatingips"]),
        "vpc-max-elastic-ips": _limit(limits["floatingips"]),
        "vpc-max-security-groups-per-interface": _limit(limits["security_groups"]),
    }
    wanted = call.get("AttributeNames", [])
    return {
        "AccountAttributes": [
            {"AttributeName": name, "AttributeValues": [{"AttributeValue": value}]}
            for name, value in values.items()
            if not wanted or name in wanted
        ]
    }


def _limit(limit: int) -> str:
    return str(limit if limit >= 0 else 2**31 - 1)


def _check_known(what: str, wanted: list[str], known: Any, code: str) -> None:
    strange = [name for name in wanted if name not in known]
    if strange:
        raise Ec2Error(code, f"Invalid {what}: [{', '.join(strange)[:400]}]")
