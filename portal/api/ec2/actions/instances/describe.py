"""DescribeInstances and DescribeInstanceStatus."""

from collections.abc import Callable, Sequence
from itertools import groupby

from django.db.models import Q
from django.utils import timezone

from portal.api.ec2.actions.instances import shapes
from portal.api.ec2.describe import NOTHING, Always, Column, Described, Filter, Narrowed, members, nothing, under
from portal.api.ec2.frame import Arguments, Call, Shape, names
from provisioning.compute.models import Instance
from provisioning.compute.selectors import is_alive
from provisioning.compute.states import VmState


def _reservations(call: Call, instances: Sequence[Instance]) -> list[Shape]:
    """Return each instance in a reservation of its own."""
    related = shapes.related_records(instances)
    return [shapes.reservation([instance], related) for instance in instances]


def _of_launches(reservations: list[Shape]) -> list[Shape]:
    """Return one reservation for the instances of each launch."""
    launches = [list(members) for _, members in groupby(reservations, key=lambda each: each["ReservationId"])]
    return [
        members[0] | {"Instances": [instance for each in members for instance in each["Instances"]]}
        for members in launches
    ]


_ASSOCIATION: dict[str, Filter] = {
    "association.ip-owner-id": "Association.IpOwnerId",
    "association.public-dns-name": "Association.PublicDnsName",
    "association.public-ip": "Association.PublicIp",
}
_OF_INTERFACES: dict[str, Filter] = {
    **under(
        "PrivateIpAddresses[]",
        {"primary": "Primary", "private-ip-address": "PrivateIpAddress", **_ASSOCIATION},
        prefix="addresses.",
    ),
    **_ASSOCIATION,
    **under(
        "Attachment",
        members("AttachTime AttachmentId DeleteOnTermination DeviceIndex Status"),
        prefix="attachment.",
    ),
    "attachment.instance-owner-id": "OwnerId",
    **members(
        "Description MacAddress NetworkInterfaceId OwnerId PrivateIpAddress SourceDestCheck Status SubnetId VpcId"
    ),
    "group-id": "Groups[].GroupId",
    "group-name": "Groups[].GroupName",
    "ipv6-addresses.ipv6-address": "Ipv6Addresses[].Ipv6Address",
}


def _with_interfaces(read: Callable[[Shape], object]) -> Filter:
    """Return a filter on a value of the instance that only instances with interfaces have."""

    def reader(item: Arguments) -> object:
        (instance,) = item["Instances"]
        return read(instance) if instance["NetworkInterfaces"] else None

    return reader


_OF_INSTANCES: dict[str, Filter] = {
    **members(
        "Architecture EbsOptimized ImageId InstanceType Ipv6Address LaunchTime PrivateDnsName PrivateIpAddress "
        "RootDeviceName RootDeviceType SourceDestCheck SubnetId VirtualizationType VpcId"
    ),
    "availability-zone": "Placement.AvailabilityZone",
    "block-device-mapping.device-name": "BlockDeviceMappings[].DeviceName",
    **under(
        "BlockDeviceMappings[].Ebs",
        {
            **members("AttachTime DeleteOnTermination Status"),
            "volume-id": Column("VolumeId", "block_devices__volume_id", names.VOLUME),
        },
        prefix="block-device-mapping.",
    ),
    "dns-name": "PublicDnsName",
    "instance-id": Column("InstanceId", "pk", names.INSTANCE),
    "instance-state-code": Narrowed("State.Code", shapes.condition_of_codes, exact=True),
    "instance-state-name": Narrowed("State.Name", shapes.condition, exact=True),
    "instance.group-id": "SecurityGroups[].GroupId",
    "instance.group-name": "SecurityGroups[].GroupName",
    "ip-address": "PublicIpAddress",
    "key-name": Column("KeyName", "key_name"),
    "launch-index": Column("AmiLaunchIndex", "launch_index"),
    "monitoring-state": "Monitoring.State",
    "network-interface.availability-zone": "Placement.AvailabilityZone",
    **under("NetworkInterfaces[]", _OF_INTERFACES, prefix="network-interface."),
    "placement-group-name": "Placement.GroupName",
    "reason": "StateTransitionReason",
    "state-reason-code": "StateReason.Code",
    "state-reason-message": "StateReason.Message",
    "tenancy": "Placement.Tenancy",
}
DESCRIBE_INSTANCES = Described(
    action="DescribeInstances",
    rule="os_compute_api:servers:detail",
    member="Reservations",
    kind=names.INSTANCE,
    ids="InstanceIds",
    ids_exclude_pages=True,
    takes="IncludeManagedResources",
    rows=lambda call: shapes.visible_rows(call.context),
    shape=_reservations,
    collect=_of_launches,
    order=shapes.ORDER,
    tags="Instances[].Tags",
    filters={
        **under("Instances[]", _OF_INSTANCES),
        "owner-id": Column("OwnerId", "project_id"),
        "reservation-id": Column("ReservationId", "reservation_id"),
        "ena-support": Always(value=False),
        "enclave-options.enabled": Always(value=False),
        "hibernation-options.configured": Always(value=False),
        "network-interface.attachment.instance-id": _with_interfaces(lambda instance: instance["InstanceId"]),
        "network-interface.attachment.network-card-index": _with_interfaces(lambda instance: 0),
        "network-interface.requester-managed": _with_interfaces(lambda instance: False),
        **nothing(
            "capacity-reservation-id client-token host-id hypervisor iam-instance-profile.arn "
            "iam-instance-profile.id instance-lifecycle kernel-id outpost-arn "
            "placement-partition-number platform product-code product-code.type ramdisk-id requester-id "
            "spot-instance-request-id"
        ),
    },
)


def _unless_all(call: Call) -> Q | None:
    """Return a condition that the running instances fulfil, unless all are requested."""
    return None if call.get("IncludeAllInstances", False) else shapes.condition([shapes.RUNNING])


def _statuses(call: Call, instances: Sequence[Instance]) -> list[Shape | None]:
    every = call.get("IncludeAllInstances", False)
    ec2_ids = names.INSTANCE.ids_of([instance.id for instance in instances])
    return [
        _status(instance, ec2_ids[instance.id]) if every or shapes.name_of(instance) == shapes.RUNNING else None
        for instance in instances
    ]


def _status(instance: Instance, ec2_id: str) -> Shape:
    state = shapes.name_of(instance)
    running = state == shapes.RUNNING
    well = running and instance.vm_state != VmState.ERROR
    hosted = instance.host is not None and is_alive(instance.host, timezone.now())
    return {
        "InstanceId": ec2_id,
        "AvailabilityZone": shapes.zone_of(instance),
        "InstanceState": shapes.state_shape(state),
        "InstanceStatus": _check("ok" if well else "impaired", running=running),
        "SystemStatus": _check("ok" if hosted else "impaired", running=running),
        "Events": [],
    }


def _check(status: str, *, running: bool) -> Shape:
    """Return the status of an instance or its host; it is ``not-applicable`` unless the instance is running."""
    if not running:
        return {"Status": "not-applicable", "Details": []}
    passed = "passed" if status == "ok" else "failed"
    return {"Status": status, "Details": [{"Name": "reachability", "Status": passed}]}


DESCRIBE_INSTANCE_STATUS = Described(
    action="DescribeInstanceStatus",
    rule="os_compute_api:servers:detail",
    member="InstanceStatuses",
    kind=names.INSTANCE,
    ids="InstanceIds",
    takes="IncludeAllInstances",
    rows=lambda call: shapes.visible_rows(call.context),
    among=_unless_all,
    shape=_statuses,
    order=shapes.ORDER,
    tags=None,
    filters={
        "availability-zone": "AvailabilityZone",
        "instance-state-code": Narrowed("InstanceState.Code", shapes.condition_of_codes, exact=True),
        "instance-state-name": Narrowed("InstanceState.Name", shapes.condition, exact=True),
        "instance-status.status": "InstanceStatus.Status",
        "instance-status.reachability": "InstanceStatus.Details[].Status",
        "system-status.status": "SystemStatus.Status",
        "system-status.reachability": "SystemStatus.Details[].Status",
        "event.code": NOTHING,
    },
)
