"""The operations of clients with the EC2 API, which alternate with operations of the other APIs, and the check that EC2
ids are stable.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tools.chaos.clients.client import Answer, Client
from tools.chaos.clients.ec2_user import Ec2
from tools.chaos.clients.world import Outcome, World
from tools.chaos.plan import Operation

TRIES = 3
"""Maximum number of times that a request with a client token is sent until there is an answer."""
PAUSE = 0.5
DIGITS = 17
"""Number of digits of the UUID in an instance's EC2 id; the guest derives its id in the same way."""
SHARED_NETWORK = "10.20.0.0/24"
MOST_ADDRESSES, MOST_VOLUMES, MOST_INTERFACES = 4, 8, 1
"""Maximum numbers of addresses, volumes and interfaces of a project, regardless of the API that created them: at the
limit, an operation changes or deletes one.
"""
TAG = "step"
VOLUME, INTERFACE = "-volume by token", "-interface by token"
"""Suffixes of the names of volumes and descriptions of interfaces that were requested with a client token, so that each
must exist only once.
"""
LOOKS = (
    "DescribeVpcs",
    "DescribeSubnets",
    "DescribeRouteTables",
    "DescribeInternetGateways",
    "DescribeSecurityGroups",
    "DescribeSecurityGroupRules",
    "DescribeNetworkInterfaces",
    "DescribeAddresses",
    "DescribeSnapshots",
    "DescribeVolumes",
    "DescribeVolumeStatus",
    "DescribeVolumesModifications",
    "DescribeImages",
    "DescribeInstanceStatus",
    "DescribeTags",
)
"""Actions that list resources while other clients change them. The answer may be outdated, but must not be an internal
error.
"""
RECORDS: Mapping[str, frozenset[str]] = {
    "ec2_start": frozenset({"start", "resume", "unpause", "unshelve"}),
    "ec2_stop": frozenset({"stop"}),
    "ec2_reboot": frozenset({"reboot"}),
}
"""Kind of operation → possible names of its action record. A request creates at most one record, and none if it was
refused.
"""


def instance_id(server: str) -> str:
    """Return the EC2 id of a server."""
    return f"i-{uuid.UUID(server).hex[:DIGITS]}"


# ----- launches -------------------------------------------------------------------------------------------------------


def launch(world: World, operation: Operation) -> list[Answer]:
    """Send a launch until there is an answer. Because of its client token, it creates its servers only once."""
    details, name = operation.details, world.name(operation.number)
    answers = _until_answered(
        world,
        operation,
        "RunInstances",
        InstanceType=world.types[details["flavor"]],
        MinCount=details["min_count"],
        MaxCount=details["max_count"],
        ClientToken=f"chaos-{name}",
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": name}]}],
        **world.ec2_launch,
    )
    _remember(world, [answer.body for answer in answers if answer.accepted])
    return answers


def _once(world: World, operation: Operation, action: str, **arguments: Any) -> Answer:
    return world.by_ec2[operation.project].ask(action, cut=operation.details.get("cut"), **arguments)


def _until_answered(world: World, operation: Operation, action: str, **arguments: Any) -> list[Answer]:
    """Send a request with a client token until there is an answer. The client may disconnect from the first request
    only.
    """
    answers = [_once(world, operation, action, **arguments)]
    while not answers[-1].status and len(answers) < TRIES:
        if "cut" not in operation.details:
            time.sleep(PAUSE)
        answers.append(world.by_ec2[operation.project].ask(action, **arguments))
    return answers


def same_answers(outcomes: Iterable[Outcome]) -> list[str]:
    """Describe launches for which the answers name different instances, although all requests of a launch had one
    client token.
    """
    found: dict[int, set[tuple[str, ...]]] = defaultdict(set)
    for outcome in outcomes:
        if outcome.operation.kind == "launch ec2" and outcome.answer.accepted:
            ids = tuple(sorted(each["InstanceId"] for each in outcome.answer.body["Instances"]))
            found[outcome.operation.number].add(ids)
    return [
        f"Launch {number} was answered with {sorted(several)}." for number, several in found.items() if len(several) > 1
    ]


def _remember(world: World, reservations: Iterable[Mapping[str, Any]]) -> None:
    for found in reservations:
        for each in found["Instances"]:
            world.ids.shown(each["InstanceId"], f"instance {each['AmiLaunchIndex']} of {found['ReservationId']}")


# ----- what is asked of a server --------------------------------------------------------------------------------------


def terminate(world: World, operation: Operation, server: str) -> Answer:
    return _once(world, operation, "TerminateInstances", InstanceIds=[instance_id(server)])


def _changing(action: str) -> Callable[[World, Client, Operation, str], Answer]:
    return lambda world, client, operation, server: _once(world, operation, action, InstanceIds=[instance_id(server)])


def _tags(world: World, client: Client, operation: Operation, server: str) -> Answer:
    tags = [{"Key": TAG, "Value": str(operation.number)}]
    return _once(world, operation, "CreateTags", Resources=[instance_id(server)], Tags=tags)


def _show(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """List all resources that the project sees, then describe this instance."""
    face = world.by_ec2[operation.project]
    for action in LOOKS:
        face.ask(action)
    every = face.ask("DescribeInstances")
    if every.accepted:
        _remember(world, every.body["Reservations"])
    return face.ask("DescribeInstances", InstanceIds=[instance_id(server)])


def _address(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Associate a new elastic IP, or an elastic IP of another server, with the server; or disassociate or release an
    elastic IP.
    """
    face = world.by_ec2[operation.project]
    listed = face.ask("DescribeAddresses")
    if not listed.accepted:
        return listed
    found = listed.body["Addresses"]
    for each in found:
        world.ids.shown(each["AllocationId"], f"address {each['PublicIp']}", alone=False)
    if len(found) < MOST_ADDRESSES:
        made = face.ask("AllocateAddress", Domain="vpc")
        if not made.accepted:
            return made
        world.ids.shown(made.body["AllocationId"], f"address {made.body['PublicIp']}", alone=False)
        return _once(
            world, operation, "AssociateAddress", AllocationId=made.body["AllocationId"], InstanceId=instance_id(server)
        )
    chosen = found[operation.number % len(found)]
    if operation.number % 3 == 0 and "AssociationId" in chosen:
        return _once(world, operation, "DisassociateAddress", AssociationId=chosen["AssociationId"])
    if operation.number % 3 == 1:
        return _once(world, operation, "ReleaseAddress", AllocationId=chosen["AllocationId"])
    return _once(
        world, operation, "AssociateAddress", AllocationId=chosen["AllocationId"], InstanceId=instance_id(server)
    )


def _volume(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Create a volume by repeated requests with one client token, which create a single volume; or delete a volume if
    the project has ``MOST_VOLUMES``.
    """
    face = world.by_ec2[operation.project]
    found = _volumes(world, face)
    if len(found) >= MOST_VOLUMES:
        return _once(world, operation, "DeleteVolume", VolumeId=found[operation.number % len(found)]["VolumeId"])
    name = f"{world.name(operation.number)}{VOLUME}"
    tags = [{"ResourceType": "volume", "Tags": [{"Key": "Name", "Value": name}]}]
    wanted = {"AvailabilityZone": "nova", "Size": 1, "ClientToken": f"chaos-{name}", "TagSpecifications": tags}
    made = _until_answered(world, operation, "CreateVolume", **wanted)[-1]
    if made.accepted:
        world.ids.shown(made.body["VolumeId"], name)
    return made


def _attach(world: World, client: Client, operation: Operation, server: str) -> Answer:
    face = world.by_ec2[operation.project]
    free = [each for each in _volumes(world, face) if each["State"] == "available"]
    if not free:
        return _volume(world, client, operation, server)
    chosen = free[operation.number % len(free)]["VolumeId"]
    device = f"/dev/sd{'fghijklmnop'[operation.number % 11]}"
    return _once(world, operation, "AttachVolume", VolumeId=chosen, InstanceId=instance_id(server), Device=device)


def _detach(world: World, client: Client, operation: Operation, server: str) -> Answer:
    face = world.by_ec2[operation.project]
    used = [each for each in _volumes(world, face) if each.get("Attachments")]
    if not used:
        return _show(world, client, operation, server)
    return _once(world, operation, "DetachVolume", VolumeId=used[operation.number % len(used)]["VolumeId"])


def _volumes(world: World, face: Ec2) -> list[dict[str, Any]]:
    """Return the project's volumes, or none if the request fails."""
    answer = face.ask("DescribeVolumes")
    found: list[dict[str, Any]] = answer.body["Volumes"] if answer.accepted else []
    for each in found:
        name = next((tag["Value"] for tag in each.get("Tags", []) if tag["Key"] == "Name"), "")
        if name.endswith(VOLUME):
            world.ids.shown(each["VolumeId"], name)
    return found


def _interface(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Create an interface by repeated requests with one client token, which create a single interface; or attach,
    detach or delete an interface if the project has ``MOST_INTERFACES``.
    """
    face = world.by_ec2[operation.project]
    listed = face.ask("DescribeNetworkInterfaces", Filters=[{"Name": "description", "Values": [f"*{INTERFACE}"]}])
    if not listed.accepted:
        return listed
    found = listed.body["NetworkInterfaces"]
    for each in found:
        world.ids.shown(each["NetworkInterfaceId"], each["Description"])
    if len(found) < MOST_INTERFACES:
        name = f"{world.name(operation.number)}{INTERFACE}"
        wanted = {"SubnetId": world.ec2_launch["SubnetId"], "Description": name, "ClientToken": f"chaos-{name}"}
        return _until_answered(world, operation, "CreateNetworkInterface", **wanted)[-1]
    chosen = found[operation.number % len(found)]
    if "Attachment" in chosen:
        return _once(world, operation, "DetachNetworkInterface", AttachmentId=chosen["Attachment"]["AttachmentId"])
    if operation.number % 4 == 0:
        return _once(world, operation, "DeleteNetworkInterface", NetworkInterfaceId=chosen["NetworkInterfaceId"])
    plugged = {"NetworkInterfaceId": chosen["NetworkInterfaceId"], "InstanceId": instance_id(server)}
    return _once(world, operation, "AttachNetworkInterface", DeviceIndex=1 + (operation.number % 5 == 0), **plugged)


def delete_interfaces(world: World) -> World:
    """Delete the interfaces that the projects have created; their servers are deleted before."""
    for face in world.by_ec2:
        listed = face.ask("DescribeNetworkInterfaces", Filters=[{"Name": "description", "Values": [f"*{INTERFACE}"]}])
        for each in listed.body["NetworkInterfaces"] if listed.accepted else []:
            face.ask("DeleteNetworkInterface", NetworkInterfaceId=each["NetworkInterfaceId"])
    return world


SEND: Mapping[str, Callable[[World, Client, Operation, str], Answer]] = {
    "ec2_start": _changing("StartInstances"),
    "ec2_stop": _changing("StopInstances"),
    "ec2_reboot": _changing("RebootInstances"),
    "ec2_tags": _tags,
    "ec2_show": _show,
    "ec2_address": _address,
    "ec2_volume": _volume,
    "ec2_attach": _attach,
    "ec2_detach": _detach,
    "ec2_interface": _interface,
}
