"""DescribeInstances and DescribeInstanceStatus."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from django.utils import timezone

from portal.api.ec2 import names, paging
from portal.api.ec2.actions.instances import related as reading
from portal.api.ec2.actions.instances import shapes, states
from portal.api.ec2.filters import Filterable
from portal.api.ec2.protocol import errors
from portal.api.ec2.registry import Call, action
from provisioning.compute.models import Instance
from provisioning.compute.selectors import is_alive
from provisioning.compute.states import VmState
from provisioning.ec2 import ids


class Found(NamedTuple):
    """An instance, and how it looks in an answer."""

    instance: Instance
    shape: dict[str, Any]


def _place(instance: Instance) -> paging.Place:
    """Order by reservation: those of one launch stay together."""
    launched = instance.created_at.isoformat()
    return f"{launched} {instance.reservation_id} {instance.launch_index:06}", instance.id.hex


@action(
    "DescribeInstances",
    "os_compute_api:servers:detail",
    takes="InstanceIds Filters MaxResults NextToken IncludeManagedResources",
)
def describe_instances(call: Call) -> dict[str, Any]:
    """Show the project's instances by the launches they came from, those too that ended in the last hour."""
    given = call.get("InstanceIds", [])
    if given and call.get("MaxResults"):
        raise errors.combination("The parameter instancesSet cannot be used with the parameter maxResults")
    instances, filters = reading.wanted(call, given), call.get("Filters", [])
    if filters:
        shown, token = paging.page(
            call, FILTERS.passing(_shaped(instances), filters), lambda each: _place(each.instance)
        )
    else:
        instances, token = paging.page(call, instances, _place)
        shown = _shaped(instances)
    groups = groupby(shown, key=lambda each: each.instance.reservation_id)
    return {"Reservations": [_reservation(list(members)) for _, members in groups], "NextToken": token}


def _reservation(members: list[Found]) -> dict[str, Any]:
    instance = members[0].instance
    return {
        "ReservationId": instance.reservation_id,
        "OwnerId": instance.project_id.hex,
        "Groups": [],
        "Instances": [each.shape for each in members],
    }


def _shaped(instances: list[Instance]) -> list[Found]:
    related = reading.related(instances)
    return [Found(instance, shapes.instance_shape(instance, related)) for instance in instances]


def _volumes(found: Found) -> Iterator[dict[str, Any]]:
    for mapping in found.shape["BlockDeviceMappings"]:
        yield {"DeviceName": mapping["DeviceName"], **mapping["Ebs"]}


def _interfaces(found: Found, name: str) -> list[object]:
    return [interface.get(name) for interface in found.shape["NetworkInterfaces"]]


FILTERS: Filterable[Found] = Filterable(
    {
        "architecture": lambda found: found.shape["Architecture"],
        "availability-zone": lambda found: found.shape["Placement"]["AvailabilityZone"],
        "block-device-mapping.attach-time": lambda found: [each["AttachTime"] for each in _volumes(found)],
        "block-device-mapping.delete-on-termination": lambda found: [
            each["DeleteOnTermination"] for each in _volumes(found)
        ],
        "block-device-mapping.device-name": lambda found: [each["DeviceName"] for each in _volumes(found)],
        "block-device-mapping.status": lambda found: [each["Status"] for each in _volumes(found)],
        "block-device-mapping.volume-id": lambda found: [each["VolumeId"] for each in _volumes(found)],
        "client-token": lambda found: [],
        "dns-name": lambda found: found.shape["PublicDnsName"],
        "hypervisor": lambda found: [],
        "image-id": lambda found: found.shape["ImageId"],
        "instance-id": lambda found: found.shape["InstanceId"],
        "instance-lifecycle": lambda found: [],
        "instance-state-code": lambda found: found.shape["State"]["Code"],
        "instance-state-name": lambda found: found.shape["State"]["Name"],
        "instance-type": lambda found: found.shape["InstanceType"],
        "instance.group-id": lambda found: [each["GroupId"] for each in found.shape["SecurityGroups"]],
        "instance.group-name": lambda found: [each["GroupName"] for each in found.shape["SecurityGroups"]],
        "ip-address": lambda found: found.shape.get("PublicIpAddress"),
        "ipv6-address": lambda found: found.shape.get("Ipv6Address"),
        "kernel-id": lambda found: [],
        "key-name": lambda found: found.shape["KeyName"],
        "launch-index": lambda found: found.shape["AmiLaunchIndex"],
        "launch-time": lambda found: found.shape["LaunchTime"],
        "monitoring-state": lambda found: found.shape["Monitoring"]["State"],
        "network-interface.mac-address": lambda found: _interfaces(found, "MacAddress"),
        "network-interface.network-interface-id": lambda found: _interfaces(found, "NetworkInterfaceId"),
        "network-interface.private-ip-address": lambda found: _interfaces(found, "PrivateIpAddress"),
        "network-interface.subnet-id": lambda found: _interfaces(found, "SubnetId"),
        "network-interface.vpc-id": lambda found: _interfaces(found, "VpcId"),
        "owner-id": lambda found: found.instance.project_id.hex,
        "placement-group-name": lambda found: [],
        "platform": lambda found: [],
        "private-dns-name": lambda found: found.shape["PrivateDnsName"],
        "private-ip-address": lambda found: found.shape.get("PrivateIpAddress"),
        "product-code": lambda found: [],
        "ramdisk-id": lambda found: [],
        "reason": lambda found: found.shape["StateTransitionReason"],
        "requester-id": lambda found: [],
        "reservation-id": lambda found: found.instance.reservation_id,
        "root-device-name": lambda found: found.shape["RootDeviceName"],
        "root-device-type": lambda found: found.shape["RootDeviceType"],
        "source-dest-check": lambda found: found.shape["SourceDestCheck"],
        "state-reason-code": lambda found: found.shape.get("StateReason", {}).get("Code"),
        "state-reason-message": lambda found: found.shape.get("StateReason", {}).get("Message"),
        "subnet-id": lambda found: found.shape.get("SubnetId"),
        "tenancy": lambda found: "default",
        "virtualization-type": lambda found: found.shape["VirtualizationType"],
        "vpc-id": lambda found: found.shape.get("VpcId"),
    },
    tags=lambda found: {tag["Key"]: tag["Value"] for tag in found.shape["Tags"]},
)


@action(
    "DescribeInstanceStatus",
    "os_compute_api:servers:detail",
    takes="InstanceIds Filters MaxResults NextToken IncludeAllInstances",
)
def describe_instance_status(call: Call) -> dict[str, Any]:
    """Say of each running instance, or of all, whether it and its host are well."""
    instances = reading.wanted(call, call.get("InstanceIds", []))
    if not call.get("IncludeAllInstances", False):
        instances = [each for each in instances if states.name_of(each) == states.RUNNING]
    known = ids.ids_of(names.INSTANCE.prefix, [instance.id for instance in instances])
    found = [Found(instance, _status(instance, known[instance.id])) for instance in instances]
    found = _STATUS_FILTERS.passing(found, call.get("Filters", []))
    shown, token = paging.page(call, found, lambda each: _place(each.instance))
    return {"InstanceStatuses": [each.shape for each in shown], "NextToken": token}


def _status(instance: Instance, ec2_id: str) -> dict[str, Any]:
    state = states.name_of(instance)
    running = state == states.RUNNING
    well = running and instance.vm_state != VmState.ERROR
    hosted = instance.host is not None and is_alive(instance.host, timezone.now())
    return {
        "InstanceId": ec2_id,
        "AvailabilityZone": shapes.zone_of(instance),
        "InstanceState": states.shape(state),
        "InstanceStatus": _check("ok" if well else "impaired", running=running),
        "SystemStatus": _check("ok" if hosted else "impaired", running=running),
        "Events": [],
    }


def _check(status: str, *, running: bool) -> dict[str, Any]:
    """Return what is known of an instance or its host; of one that does not run there is nothing to know."""
    if not running:
        return {"Status": "not-applicable", "Details": []}
    passed = "passed" if status == "ok" else "failed"
    return {"Status": status, "Details": [{"Name": "reachability", "Status": passed}]}


_STATUS_FILTERS: Filterable[Found] = Filterable(
    {
        "availability-zone": lambda found: found.shape["AvailabilityZone"],
        "instance-state-code": lambda found: found.shape["InstanceState"]["Code"],
        "instance-state-name": lambda found: found.shape["InstanceState"]["Name"],
        "instance-status.status": lambda found: found.shape["InstanceStatus"]["Status"],
        "instance-status.reachability": lambda found: [
            each["Status"] for each in found.shape["InstanceStatus"]["Details"]
        ],
        "system-status.status": lambda found: found.shape["SystemStatus"]["Status"],
        "system-status.reachability": lambda found: [each["Status"] for each in found.shape["SystemStatus"]["Details"]],
        "event.code": lambda found: [],
    }
)
