"""Conversion of the body of ``POST /servers`` into a LaunchRequest."""

from collections.abc import Mapping
from typing import Any

from portal.api.compute.dialect.schemas import SHARED_VOLUMES, Version, boolean
from portal.api.compute.servers.devices import read_devices, tail
from provisioning.common.errors import InvalidInputError
from provisioning.compute.launch.request import InjectedFile, LaunchRequest, NetworkRequest, Networks


def launch_request(body: Mapping[str, Any], password: str | None, version: Version) -> LaunchRequest:
    """Convert a validated body; ``password`` is the guest's password, from the body or generated.

    Raises InvalidInputError, with the field, if values contradict each other.
    """
    server = body["server"]
    least = int(server.get("min_count", 1))
    most = int(server.get("max_count", least))
    if least > most:
        raise InvalidInputError("min_count must be <= max_count", field="min_count")
    groups = server.get("security_groups")
    image, disks = read_devices(server)
    certificates = server.get("trusted_image_certificates")
    return LaunchRequest(
        name=server["name"],
        image_id=image,
        flavor_ref=tail(str(server["flavorRef"])),
        networks=_networks(server.get("networks")),
        key_name=server.get("key_name"),
        security_groups=None if groups is None else tuple(group["name"] for group in groups if "name" in group),
        user_data=server.get("user_data"),
        metadata=server.get("metadata", {}),
        tags=tuple(server.get("tags", ())),
        config_drive=boolean(server.get("config_drive", False)),
        min_count=least,
        max_count=most,
        availability_zone=server.get("availability_zone"),
        description=server.get("description"),
        hostname=server.get("hostname"),
        scheduler_hints=body.get("os:scheduler_hints") or body.get("OS-SCH-HNT:scheduler_hints") or {},
        admin_password=password,
        access_ip_v4=server.get("accessIPv4", ""),
        access_ip_v6=server.get("accessIPv6", ""),
        disk_config=server.get("OS-DCF:diskConfig", "MANUAL"),
        injected_files=tuple(
            InjectedFile(path=file["path"], contents=file["contents"]) for file in server.get("personality", ())
        ),
        disks=disks,
        shares_volumes=version >= SHARED_VOLUMES,
        trusted_certificates=None if certificates is None else tuple(certificates),
        host=server.get("host"),
        hypervisor_hostname=server.get("hypervisor_hostname"),
    )


def _networks(specified: object) -> Networks:
    if specified is None or specified == []:
        return None
    if specified == "auto":
        return "auto"
    if specified == "none":
        return "none"
    return tuple(_network(entry) for entry in specified) if isinstance(specified, list) else None


def _network(entry: Mapping[str, Any]) -> NetworkRequest:
    network, port, address = entry.get("uuid"), entry.get("port"), entry.get("fixed_ip")
    if network is None and port is None:
        raise InvalidInputError("Bad networks format: network uuid is not in proper format ''", field="networks")
    if port is not None and address is not None:
        raise InvalidInputError(
            f"Specified Fixed IP '{address}' cannot be used with port '{port}': the two cannot be specified together.",
            field="networks",
        )
    return NetworkRequest(network_id=network, port_id=port, fixed_ip=address, tag=entry.get("tag", ""))
