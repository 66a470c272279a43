"""Diagnostics and consoles of a guest (Compute API reference, "Servers diagnostics", "Servers consoles", "Consoles"),
and its volumes, which its guest agent examines, mounts and extends: Novella's own operations.
"""

from rest_framework.request import Request

from compute_agent.contract.calls import Diagnostics
from compute_agent.contract.guest_disks import DIRECTORY, LONGEST_DIRECTORY, InspectedDisk
from compute_agent.contract.power import PowerState
from portal.api.compute.dialect import ComputeView
from portal.api.frame import NEWEST, Call, Json, Schema, Version, parts
from portal.common.http.public_url import public_url
from portal.common.websockets.console_urls import client_url
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute.actions.guest_disks import RULE, ExtendFileSystem, MountVolume, VolumeToMount, inspect_disk
from provisioning.compute.services.console import diagnostics
from provisioning.compute.services.remote_consoles import create_console, find_token
from provisioning.identity.tokens.tokens import TokenData, read

_STATES = {
    PowerState.NOSTATE: "pending",
    PowerState.RUNNING: "running",
    PowerState.PAUSED: "paused",
    PowerState.SHUTDOWN: "shutdown",
    PowerState.CRASHED: "crashed",
    PowerState.SUSPENDED: "suspended",
}
_DRIVERS = {"libvirt", "xenapi", "vmwareapi", "ironic", "hyperv"}
"""The hypervisor drivers in the reference; for any other driver, ``libvirt`` is shown."""
_NIC = ("rx_octets", "rx_errors", "rx_drop", "rx_packets", "tx_octets", "tx_errors", "tx_drop", "tx_packets")
_DISK = ("read_bytes", "read_requests", "write_bytes", "write_requests", "errors_count")
_OLD_NIC = {"rx": "rx_octets", "rx_packets": "rx_packets", "rx_errors": "rx_errors", "rx_drop": "rx_drop"}
_OLD_DISK = {
    "read_req": "read_requests",
    "read": "read_bytes",
    "write_req": "write_requests",
    "write": "write_bytes",
    "errors": "errors_count",
}


def standard(found: Diagnostics) -> Json:
    """Return the format of 2.48; memory in MiB, times in ns, uptime in s."""
    return {
        "state": _STATES.get(PowerState(found.power_state), "pending"),
        "driver": found.driver if found.driver in _DRIVERS else "libvirt",
        "hypervisor": found.hypervisor,
        "hypervisor_os": found.hypervisor_os,
        "uptime": None if found.uptime is None else int(found.uptime),
        "config_drive": found.config_drive,
        "num_cpus": len(found.cpus),
        "num_nics": len(found.nics),
        "num_disks": len(found.disks),
        "memory_details": {"maximum": found.memory_mb, "used": found.memory_used_mb},
        "cpu_details": [{"id": cpu.id, "time": cpu.time_ns, "utilisation": cpu.utilisation} for cpu in found.cpus],
        "nic_details": [
            {
                "mac_address": nic.mac_address,
                **{name: getattr(nic, name) for name in _NIC},
                "rx_rate": None,
                "tx_rate": None,
            }
            for nic in found.nics
        ],
        "disk_details": [{name: getattr(disk, name) for name in _DISK} for disk in found.disks],
    }


def flat(found: Diagnostics) -> Json:
    """Return the format before 2.48: libvirt's names, one key for each counter; memory in KiB."""
    shape: Json = {f"cpu{cpu.id}_time": cpu.time_ns for cpu in found.cpus}
    for disk in found.disks:
        shape |= {f"{disk.target}_{old}": getattr(disk, name) for old, name in _OLD_DISK.items()}
    for nic in found.nics:
        for old, name in _OLD_NIC.items():
            sent = old.replace("rx", "tx", 1), name.replace("rx", "tx", 1)
            shape |= {f"{nic.tap or 'vnet'}_{old}": getattr(nic, name)}
            shape |= {f"{nic.tap or 'vnet'}_{sent[0]}": getattr(nic, sent[1])}
    if found.memory_mb is not None:
        shape["memory"] = found.memory_mb * 1024
    if found.memory_used_mb is not None:
        shape["memory-rss"] = found.memory_used_mb * 1024
    return shape


DIAGNOSTICS = Call(
    diagnostics,
    "os_compute_api:os-server-diagnostics",
    "Query the host and show its counters: from 2.48 on in one format for all hypervisors, before 2.48 in libvirt's"
    " flat format.",
    shape=lambda view, found: standard(found) if view.microversion >= (2, 48) else flat(found),
)


CONTENTS = {"empty": "empty", "filesystem": "file_system", "other": "other"}


def disk_action(version: Version) -> Schema:
    """Return the schema of ``POST``, equal at every microversion: one action."""
    directory = {"type": "string", "maxLength": LONGEST_DIRECTORY, "pattern": rf"^{DIRECTORY}\Z"}
    mount = {
        "type": "object",
        "properties": {"directory": directory},
        "required": ["directory"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"mount": mount, "extend_file_system": {"type": "null"}},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


def _inspected_disk(view: ComputeView, found: InspectedDisk) -> Json:
    return {
        "volume_id": view.kwargs["volume_id"],
        "device": found.device,
        "content": CONTENTS[found.content],
        "type": found.kind or None,
        "mount_point": found.mount_point or None,
    }


def _act_on_disk(context: RequestContext, server_id: str, volume_id: str, body: Json) -> None:
    if "mount" in body:
        MountVolume.begin(context, server_id, VolumeToMount(volume_id, body["mount"]["directory"]))
    else:
        ExtendFileSystem.begin(context, server_id, volume_id)


GUEST_DISKS = parts(
    ComputeView,
    "servers/{server_id}/novella-guest-disks/{volume_id}",
    {
        "GET": Call(
            inspect_disk,
            RULE,
            "Ask the guest agent for the content and the mount point of a volume; nothing is changed.",
            name="guest_disk",
            shape=_inspected_disk,
        ),
        "POST /action": Call(
            _act_on_disk,
            RULE,
            "Let the guest agent mount a volume now and at each start, after formatting it if it is empty, or extend"
            " its mounted file system to the size of the volume.",
            status=202,
            body=disk_action,
        ),
    },
)


_PROTOCOLS = ["vnc", "spice", "rdp", "serial"]
_TYPES = ["novnc", "xvpvnc", "spice-html5", "rdp-html5", "serial"]


def console_schema(version: Version) -> Schema:
    """Return the body's schema; 2.8 added mks."""
    mks = version >= (2, 8)
    console: Schema = {
        "type": "object",
        "properties": {
            "protocol": {"type": "string", "enum": [*_PROTOCOLS, "mks"] if mks else _PROTOCOLS},
            "type": {"type": "string", "enum": [*_TYPES, "webmks"] if mks else _TYPES},
        },
        "required": ["protocol", "type"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"remote_console": console},
        "required": ["remote_console"],
        "additionalProperties": False,
    }


def token_of(view: ComputeView) -> TokenData:
    return read(view.request.headers.get("X-Auth-Token", ""))


class RemoteConsolesView(ComputeView):
    """Consoles of a server, from 2.6 on."""

    rules = {"POST": "os_compute_api:os-remote-consoles"}
    schemas = {"POST": console_schema}
    versions = {"POST": ((2, 6), NEWEST)}

    def post(self, request: Request, server_id: str) -> Json:
        """Create a console and return its address."""
        body = self.checked_body()["remote_console"]
        made = create_console(self.context, server_id, body["protocol"], body["type"], token_of(self))
        url = client_url(public_url(request), made.protocol, made.token)
        return {"remote_console": {"protocol": made.protocol, "type": made.console_type, "url": url}}


class ConsoleAuthTokenView(ComputeView):
    """The address of a token's console. Consoles have no port: they are sockets in a directory of the host."""

    rules = {"GET": "os_compute_api:os-console-auth-tokens"}

    def get(self, request: Request, console_token: str) -> Json:
        """Show the console's address without using up the token. Before 2.31 only RDP consoles were shown, which
        Novella does not support.
        """
        if self.microversion < (2, 31):
            raise InvalidInputError("The requested console type details are not accessible")
        instance = find_token(console_token).instance
        host = instance.host.name if instance.host else None
        return {
            "console": {
                "instance_uuid": str(instance.id),
                "host": host,
                "port": None,
                "internal_access_path": None,
            }
        }
