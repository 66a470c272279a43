"""From the body of ``POST /servers`` to one frozen LaunchRequest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from provisioning.common.errors import InvalidInputError
from provisioning.compute.requests import LaunchRequest, NetworkRequest, Networks

_TRUE = {True, "True", "true", "TRUE", "1", "on", "yes"}


def truth(value: object) -> bool:
    """Read Nova's many spellings of a boolean; the schema has refused the rest."""
    return value in _TRUE


def launch_request(body: Mapping[str, Any]) -> LaunchRequest:
    """Translate a body that the schema has passed.

    Raises InvalidInputError, naming the field, for what Novella does not offer (volumes, a chosen password).
    """
    server = body["server"]
    _refuse_what_is_not_offered(server)
    least = int(server.get("min_count", 1))
    most = int(server.get("max_count", least))
    if least > most:
        raise InvalidInputError("min_count must be <= max_count", field="min_count")
    groups = server.get("security_groups")
    return LaunchRequest(
        name=server["name"],
        image_id=_image(server),
        flavor_ref=_tail(str(server["flavorRef"])),
        networks=_networks(server.get("networks")),
        key_name=server.get("key_name"),
        security_groups=None if groups is None else tuple(group["name"] for group in groups if "name" in group),
        user_data=server.get("user_data"),
        metadata=server.get("metadata", {}),
        tags=tuple(server.get("tags", ())),
        config_drive=truth(server.get("config_drive", False)),
        min_count=least,
        max_count=most,
        availability_zone=server.get("availability_zone"),
        description=server.get("description"),
        scheduler_hints=body.get("os:scheduler_hints") or body.get("OS-SCH-HNT:scheduler_hints") or {},
    )


def _refuse_what_is_not_offered(server: Mapping[str, Any]) -> None:
    """A field that would be taken and do nothing is refused instead."""
    sentences = {
        "adminPass": "Setting adminPass is not offered: sign in with a key pair, or set a password by user data.",
        "accessIPv4": "Setting accessIPv4 is not offered: a server is reached at its fixed addresses.",
        "accessIPv6": "Setting accessIPv6 is not offered: a server is reached at its fixed addresses.",
    }
    for field, sentence in sentences.items():
        if field in server:
            raise InvalidInputError(sentence, field=field)
    if server.get("OS-DCF:diskConfig") == "AUTO":
        raise InvalidInputError(
            "OS-DCF:diskConfig AUTO is not offered: the guest itself grows its file system.", field="OS-DCF:diskConfig"
        )


def _tail(reference: str) -> str:
    """An id, or the last part of a link to the resource, as the reference allows."""
    return reference.rstrip("/").rsplit("/", 1)[-1]


def _image(server: Mapping[str, Any]) -> str:
    """The image, from ``imageRef`` or from the one local boot device that names an image."""
    given = _tail(server.get("imageRef", ""))
    devices: Sequence[Mapping[str, Any]] = server.get("block_device_mapping_v2", ())
    for device in devices:
        _check_device(device)
    boot = [device for device in devices if str(device.get("boot_index")) == "0"]
    if devices and len(boot) != 1:
        raise InvalidInputError(
            "Block Device Mapping is Invalid: Boot sequence for the instance and image/block device mapping "
            "combination is not valid.",
            field="block_device_mapping_v2",
        )
    if boot:
        mapped = str(boot[0].get("uuid", ""))
        if given and given != mapped:
            raise InvalidInputError(
                "imageRef and the boot device of block_device_mapping_v2 name different images.", field="imageRef"
            )
        given = mapped
    if not given:
        raise InvalidInputError("Invalid imageRef provided: an image to boot from is needed.", field="imageRef")
    return given


def _check_device(device: Mapping[str, Any]) -> None:
    source, target = device.get("source_type"), device.get("destination_type", "volume")
    if (source, target) != ("image", "local") or str(device.get("boot_index")) != "0":
        raise InvalidInputError(
            "Block Device Mapping is Invalid: only a local boot disk made from an image is offered; "
            "the sizes of ephemeral and swap disks are the flavor's.",
            field="block_device_mapping_v2",
        )


def _networks(given: object) -> Networks:
    if given is None or given == []:
        return None
    if given == "auto":
        return "auto"
    if given == "none":
        return "none"
    requests = []
    for entry in given if isinstance(given, list) else ():
        network, port = entry.get("uuid"), entry.get("port")
        if network is None and port is None:
            raise InvalidInputError("Bad networks format: network uuid is not in proper format ''", field="networks")
        requests.append(NetworkRequest(network_id=network, port_id=port, fixed_ip=entry.get("fixed_ip")))
    return tuple(requests)
