"""Specification of a guest in commands to its host."""

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from django.conf import settings

from compute_agent.contract.build import (
    FlavorRef,
    ImageRef,
    InjectedFile,
    InstanceSpec,
    KeyPairRef,
    PortRef,
    RescueImage,
)
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.compute.disks import block_devices
from provisioning.compute.models import AggregateHost, Instance
from provisioning.compute.records import passwords
from provisioning.compute.selectors.block_devices import tags_of_interfaces
from provisioning.compute.selectors.host_offers import boot_properties
from provisioning.compute.states import VmState
from provisioning.cpus.selectors import common_features
from provisioning.ec2.given import DEFAULT_HOPS, REQUIRED, options_of
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from provisioning.images.records.properties import text_of
from provisioning.images.records.references import image_ref
from provisioning.images.selectors.companions import companions
from provisioning.network import selectors as network

IMAGE, KERNEL, RAMDISK = "image_id", "kernel_id", "ramdisk_id"
"""Keys of an instance's images: its own image, and the properties with its kernel and ramdisk."""

MARK = "cpu_baseline"
"""Key of an aggregate's metadata: ``true`` if its hosts share a baseline."""


def guest_spec(
    instance: Instance,
    *,
    zone: str | None = None,
    host_id: uuid.UUID | None = None,
    rescue: Image | None = None,
    password: str | None = None,
    with_bits: bool = False,
    second: bool = False,
) -> InstanceSpec:
    """Return the specification of the guest, with the image as recorded at launch or rebuild, and the current
    interfaces.

    ``zone`` and ``host_id``: the availability zone and the host of a server whose record has no host yet. ``rescue``:
    the image to boot instead. ``password``: the administrator's, instead of the stored one. ``with_bits``: the host has
    to download the images; raises NotFoundError when one was deleted. ``second``: for the host that the server is being
    migrated to.
    """
    images, devices = _images(instance), block_devices.devices_of(instance.id)
    if with_bits and not all(image and image.status == Image.Status.ACTIVE for image in images.values()):
        raise NotFoundError("The image was removed before the server could be built.", field="imageRef")
    kernel, ramdisk = images.get(KERNEL), images.get(RAMDISK)
    options = options_of([instance.id]).get(instance.id)
    if zone is None:
        zone = instance.host.availability_zone if instance.host else instance.availability_zone
    return InstanceSpec(
        uuid=str(instance.id),
        name=instance.name,
        hostname=instance.hostname,
        project_id=instance.project_id.hex,
        user_id=instance.user_id.hex,
        image=_image_of(instance, images.get(IMAGE)),
        flavor=flavor_ref(instance.flavor),
        ports=_tagged(network.port_refs(instance.id), instance),
        key_pair=_key_pair(instance.key_name or "", instance.public_key),
        user_data=instance.user_data,
        metadata=instance.metadata,
        config_drive=instance.config_drive,
        availability_zone=zone,
        admin_password=password or passwords.opened(instance),
        injected_files=[InjectedFile(path=file["path"], contents=file["contents"]) for file in instance.injected_files],
        created_at=instance.created_at.isoformat(),
        launch_index=instance.launch_index,
        reservation_id=instance.reservation_id,
        kernel=image_ref(kernel) if kernel else None,
        ramdisk=image_ref(ramdisk) if ramdisk else None,
        rescue=_rescue(rescue, instance.project_id) if rescue else None,
        posted_password=instance.password,
        volumes=block_devices.guest_disks(instance, devices, second=second),
        local_disks=block_devices.local_disks(instance, devices),
        cpu_features=baseline_of(host_id or instance.host_id, zone),
        metadata_token=options is not None and options.http_tokens == REQUIRED,
        metadata_hops=options.hop_limit if options is not None else DEFAULT_HOPS,
    )


def flavor_ref(flavor: Mapping[str, Any]) -> FlavorRef:
    """Return the contract's flavor for an instance's copy of its flavor."""
    return FlavorRef(
        name=flavor["name"],
        vcpus=flavor["vcpus"],
        memory_mb=flavor["memory_mb"],
        root_gb=flavor["root_gb"],
        ephemeral_gb=flavor["ephemeral_gb"],
        swap_mb=flavor["swap_mb"],
        extra_specs={str(key): str(value) for key, value in flavor["extra_specs"].items()},
    )


def _images(instance: Instance) -> dict[str, Image | None]:
    """Return the rows of the instance's image (unless it boots from a volume), kernel and ramdisk; None for a deleted
    row.
    """
    properties = instance.image_properties
    on_shelf = instance.vm_state == VmState.SHELVED_OFFLOADED  # built from its shelved image
    root = {IMAGE: instance.snapshot_image_id if on_shelf else instance.image_id}
    if block_devices.boots_from_volume(instance):
        root = {}
    ids = root | {name: read_id(str(properties[name])) for name in (KERNEL, RAMDISK) if properties.get(name)}
    needed = {identity for identity in ids.values() if identity is not None}
    rows = {row.id: row for row in _IMAGES(ids=needed)} if needed else {}
    return {name: rows.get(identity) if identity is not None else None for name, identity in ids.items()}


_IMAGES = Prepared(lambda ids: Image.objects.filter(Among("id", ids)), ids=Ids())


def _image_of(instance: Instance, row: Image | None) -> ImageRef:
    """Return the reference of the instance's image. If the image was deleted, use the instance's own columns."""
    properties = text_of(instance.image_properties)
    if row is not None:
        return image_ref(row, properties or None)
    return ImageRef(
        id=str(instance.image_id) if instance.image_id else "",
        name=instance.image_name,
        disk_format="",
        size=0,
        hash_algo="",
        hash_value="",
        properties=properties,
    )


def _key_pair(name: str, public_key: str | None) -> KeyPairRef | None:
    if not public_key:
        return None
    kind = "x509" if public_key.lstrip().startswith("-----BEGIN CERTIFICATE-----") else "ssh"
    return KeyPairRef(name=name, public_key=public_key, type=kind)


def _rescue(image: Image, project_id: uuid.UUID) -> RescueImage:
    named = companions(image, project_id)
    kernel, ramdisk = named.get(KERNEL), named.get(RAMDISK)
    return RescueImage(
        image=image_ref(image, boot_properties(image)),
        kernel=image_ref(kernel) if kernel else None,
        ramdisk=image_ref(ramdisk) if ramdisk else None,
    )


def _tagged(ports: list[PortRef], instance: Instance) -> list[PortRef]:
    """Add the owner's tags to the interfaces."""
    tags = tags_of_interfaces(instance)
    return [msgspec.structs.replace(port, tag=tags[port.id]) if port.id in tags else port for port in ports]


def baseline_of(host_id: uuid.UUID | None, zone: str) -> list[str] | None:
    """Return the features of a guest on a host in a zone, sorted; None: all that its host offers."""
    if settings.CPU_BASELINE == "host":
        return None
    hosts = Host.objects.all()
    if settings.CPU_BASELINE == "zone":
        hosts = hosts.filter(availability_zone=zone)
    elif settings.CPU_BASELINE == "aggregate":
        marked = _marked(host_id) if host_id is not None else []
        if not marked:
            return None
        hosts = hosts.filter(id__in=AggregateHost.objects.filter(aggregate__in=marked).values("host"))
    return common_features(hosts)


def _marked(host_id: uuid.UUID) -> list[int]:
    rows = AggregateHost.objects.filter(host=host_id).values_list("aggregate_id", "aggregate__metadata")
    return [key for key, metadata in rows if str(metadata.get(MARK, "")).lower() == "true"]
