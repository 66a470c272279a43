"""Conversion of the body of ``POST /servers`` into a LaunchRequest, with both forms of block device mapping."""

from collections.abc import Sequence

from portal.api.compute.dialect import SHARED_VOLUMES, boolean
from portal.api.frame import Json, Version
from provisioning.common.errors import InvalidInputError
from provisioning.compute.launch.request import DiskRequest, InjectedFile, LaunchRequest, NetworkRequest, Networks

FIELD, OLD_FIELD = "block_device_mapping_v2", "block_device_mapping"


def read_devices(server: Json) -> tuple[str, tuple[DiskRequest, ...]]:
    """Return the id in ``imageRef`` (empty without an image) and the disks of either form of block device mapping.

    Raises InvalidInputError.
    """
    old: Sequence[Json] = server.get(OLD_FIELD, ())
    new: Sequence[Json] = server.get(FIELD, ())
    if old and new:
        raise InvalidInputError(
            "Using different block_device_mapping syntaxes is not allowed in the same request.", field=FIELD
        )
    image = tail(server.get("imageRef", ""))
    disks = _old(old, image) if old else tuple(_new(device, image) for device in new if "no_device" not in device)
    local = [disk for disk in disks if (disk.source_type, disk.destination_type) == ("image", "local")]
    if not local:
        return image, disks
    if len([disk for disk in disks if disk.boot_index == 0]) > 1:
        raise _invalid("Boot sequence for the instance and image/block device mapping combination is not valid.")
    if image and image != local[0].source_id:
        raise InvalidInputError(f"imageRef and the boot device of {FIELD} name different images.", field="imageRef")
    return local[0].source_id or "", tuple(disk for disk in disks if disk is not local[0])


def tail(reference: str) -> str:
    """Return the id in a reference, which may be the id itself or a link that ends with it, as in Nova."""
    return reference.rstrip("/").rsplit("/", 1)[-1]


def _old(devices: Sequence[Json], image: str) -> tuple[DiskRequest, ...]:
    """Read the legacy form; without an image the server boots from the first volume or snapshot."""
    found = [disk for device in devices if (disk := _old_disk(device)) is not None]
    boots = None if image else next((disk for disk in found if disk["source_type"] != "blank"), None)
    return tuple(DiskRequest(**disk, boot_index=0 if disk is boots else -1) for disk in found)


def _old_disk(device: Json) -> Json | None:
    values = {
        "size": int(device["volume_size"]) if device.get("volume_size") not in (None, "") else None,
        "delete_on_termination": boolean(device.get("delete_on_termination", False)),
        "device_name": device.get("device_name") or "",
    }
    if "no_device" in device:
        return None
    for kind in ("snapshot", "volume"):
        if device.get(f"{kind}_id"):
            return values | {"source_type": kind, "destination_type": "volume", "source_id": device[f"{kind}_id"]}
    name = str(device.get("virtual_name", ""))
    if name in {"", "ami", "root"}:
        return None
    empty = values | {"source_type": "blank", "destination_type": "local", "delete_on_termination": True}
    if name == "swap":
        return empty | {"guest_format": "swap"}
    if name.startswith("ephemeral") and name.removeprefix("ephemeral").isdigit():
        return empty
    raise _invalid(f"{name[:64]!r} is not a virtual device.", OLD_FIELD)


def _new(device: Json, image: str) -> DiskRequest:
    source = device.get("source_type") or next(
        (kind for kind in ("volume", "snapshot", "image") if device.get(f"{kind}_id")), "blank"
    )
    named = device.get("uuid") or device.get(f"{source}_id")
    target = device.get("destination_type") or ("local" if source == "blank" else "volume")
    index = int(device["boot_index"]) if device.get("boot_index") not in (None, "") else None
    volume_type = device.get("volume_type") or ""
    if source == "blank" and named:
        raise _invalid("Invalid device UUID.")
    if source != "blank" and not named:
        raise _invalid("Missing device UUID.")
    if (source, target) == ("image", "local") and index != 0:
        raise _invalid("Mapping image to local is not supported.")
    if source in {"volume", "snapshot"} and target == "local":
        raise _invalid(f"Mapping {source} to local is not supported.")
    if target == "local" and volume_type:
        raise _invalid("Specifying a volume_type with destination_type=local is not supported.")
    if source == "volume" and volume_type:
        raise _invalid("Specifying volume type to existing volume is not supported.")
    return DiskRequest(
        source_type=source,
        destination_type=target,
        source_id=named,
        boot_index=index,
        size=int(device["volume_size"]) if device.get("volume_size") not in (None, "") else None,
        volume_type=volume_type,
        delete_on_termination=boolean(device.get("delete_on_termination", target == "local")),
        device_name=device.get("device_name") or "",
        disk_bus=device.get("disk_bus") or "",
        device_type=device.get("device_type") or "",
        guest_format=device.get("guest_format") or "",
        tag=device.get("tag") or "",
    )


def _invalid(sentence: str, field: str = FIELD) -> InvalidInputError:
    return InvalidInputError(f"Block Device Mapping is Invalid: {sentence}", field=field)


def launch_request(body: Json, password: str | None, version: Version) -> LaunchRequest:
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


def _network(entry: Json) -> NetworkRequest:
    network, port, address = entry.get("uuid"), entry.get("port"), entry.get("fixed_ip")
    if network is None and port is None:
        raise InvalidInputError("Bad networks format: network uuid is not in proper format ''", field="networks")
    if port is not None and address is not None:
        raise InvalidInputError(
            f"Specified Fixed IP '{address}' cannot be used with port '{port}': the two cannot be specified together.",
            field="networks",
        )
    return NetworkRequest(network_id=network, port_id=port, fixed_ip=address, tag=entry.get("tag", ""))
