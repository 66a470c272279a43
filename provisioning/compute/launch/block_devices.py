"""Disks of a launch: validation, the boot disk, and constraints on the host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.conf import settings

from compute_agent.contract.hardware import PREFIXES
from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.compute.disks import device_names
from provisioning.compute.flavors.sizes import GIB, flavor_copy
from provisioning.compute.launch.flavor_and_image import (
    ZERO_DISK,
    check_fit,
    check_image,
    check_memory,
    may_be_without_disk,
    size_of,
)
from provisioning.compute.launch.image_disks import disks_of
from provisioning.compute.launch.mounts import check_mounts
from provisioning.compute.launch.request import DiskRequest, LaunchRequest
from provisioning.compute.models import BlockDevice, Flavor
from provisioning.compute.records.names import check_text
from provisioning.compute.selectors.host_offers import boot_properties, boot_properties_of_volume
from provisioning.images import selectors as images
from provisioning.images.models import Image
from provisioning.volumes import selectors as volumes
from provisioning.volumes.models import Snapshot, Volume
from provisioning.volumes.services.checks import check_may_share

FIELD = "block_device_mapping_v2"
BOOT_SEQUENCE = "Boot sequence for the instance and image/block device mapping combination is not valid."
BUSES = frozenset(PREFIXES)
DEVICE_TYPES = frozenset({"disk", "cdrom", "lun"})
MOST_GB = 2**31 - 1
OLD_MULTIATTACH = "Multiattach volumes are only supported starting with compute API version 2.60."


@dataclass(frozen=True, slots=True)
class CheckedDisks:
    """Validated disks of a launch."""

    image: Image | None
    """Image of the local root disk; None: the server boots from a volume."""
    properties: dict[str, str]
    """Properties of the image of the root disk or of the boot volume."""
    devices: tuple[BlockDevice, ...] = ()
    """In the order of the request, without a server; each server of the request gets a copy."""
    mounts: Mapping[int, str] = field(default_factory=dict)
    """Position of a disk → the directory where it is mounted."""
    zones: frozenset[str] = field(default_factory=frozenset)
    """Availability zones of existing volumes, if servers must be in the same zone; empty: any."""


def check_disks(context: RequestContext, request: LaunchRequest, flavor: Flavor) -> CheckedDisks:
    """Validate the disks of a launch. Raises InvalidInputError and ForbiddenError."""
    disks = request.disks
    named_image = check_image(context, request.image_id) if request.image_id else None
    image = None if _boots(disks) else named_image
    if image is not None and (named := disks_of(image.properties)):
        disks = (*named, *disks)
        image = None if _boots(named) else image
    _check_sequence(disks, local_root=image is not None)
    _check_local(disks, flavor)
    checked = [_Disk(context, position, requested) for position, requested in enumerate(disks)]
    if not request.shares_volumes and any(each.volume is not None and each.volume.multiattach for each in checked):
        raise InvalidInputError(OLD_MULTIATTACH, field=FIELD)
    devices = tuple(each.device for each in checked)
    if image is not None:
        if not may_be_without_disk(context, flavor):
            raise ForbiddenError(ZERO_DISK, field="flavorRef")
        check_fit(flavor, image)
        properties, size = boot_properties(image), size_of(image)
    else:
        root = next(each for each in checked if each.device.is_root)
        properties, size = root.check_root(flavor, named_image), 0
    copy = flavor_copy(flavor, size, local_root=image is not None)
    hardware = device_names.hardware_of(properties, copy)
    taken = device_names.of_flavor(copy, devices, hardware, local_root=image is not None)
    device_names.choose(devices, taken, hardware)
    zones = frozenset(zone for each in checked if (zone := each.zone))
    return CheckedDisks(image, properties, devices, check_mounts(disks), zones)


def invalid(sentence: str) -> InvalidInputError:
    """Return the error for an invalid block device mapping."""
    return InvalidInputError(f"Block Device Mapping is Invalid: {sentence}", field=FIELD)


def _boots(disks: Sequence[DiskRequest]) -> bool:
    return any(disk.boot_index == 0 for disk in disks)


def _check_sequence(disks: Sequence[DiskRequest], *, local_root: bool) -> None:
    """Validate that the boot indexes are consecutive numbers from 0."""
    indexes = [disk.boot_index for disk in disks if disk.boot_index is not None and disk.boot_index >= 0]
    if local_root:
        indexes.append(0)
    if sorted(indexes) != list(range(len(indexes))):
        raise invalid(BOOT_SEQUENCE)
    if not indexes:
        if disks:
            raise invalid(BOOT_SEQUENCE)
        raise InvalidInputError("Invalid imageRef provided.", field="imageRef")
    if any(disk.destination_type == "local" for disk in disks if disk.boot_index is not None and disk.boot_index >= 0):
        raise invalid(BOOT_SEQUENCE)


def _check_local(disks: Sequence[DiskRequest], flavor: Flavor) -> None:
    local = [disk for disk in disks if disk.destination_type == "local"]
    swaps, empty = ([disk for disk in local if (disk.guest_format == "swap") is swap] for swap in (True, False))
    if len(swaps) > 1:
        raise invalid("More than one swap drive requested.")
    if swaps and max(swaps[0].size or 0, 1) > flavor.swap_mb:
        raise invalid("Swap drive requested is larger than instance type allows.")
    if sum(disk.size or max(flavor.ephemeral_gb, 1) for disk in empty) > flavor.ephemeral_gb:
        raise invalid(
            "Ephemeral disks requested are larger than the instance type allows. If no size is given in one block"
            " device mapping, flavor ephemeral size will be used."
        )


def _check_type(context: RequestContext, named: str) -> None:
    try:
        check_may_share(context, volumes.type_for(context, named))
    except NotFoundError as error:
        raise InvalidInputError(error.message, field=FIELD) from error


class _Disk:
    """A requested disk with its source."""

    def __init__(self, context: RequestContext, position: int, request: DiskRequest) -> None:
        """Look up the source. Raises InvalidInputError."""
        self.asked, self.image, self.volume, self.snapshot = request, None, None, None
        device_names.check_path(request.device_name)
        size = request.size
        if request.source_type == "image":
            self.image = _image(context, request)
            if not size:
                raise invalid("Images with destination_type 'volume' need to have a non-zero size specified")
        elif request.source_type == "volume":
            self.volume = _volume(context, request)
            size = self.volume.size_gb
        elif request.source_type == "snapshot":
            self.snapshot = _snapshot(context, request)
            size = size or self.snapshot.size_gb
        elif request.destination_type == "volume" and not size:
            raise invalid("Blank volumes (source: 'blank', dest: 'volume') need to have non-zero size")
        if size is not None and size > MOST_GB:
            raise invalid(f"a size is at most {MOST_GB} GiB.")
        if request.volume_type:
            _check_type(context, request.volume_type)
        if request.disk_bus and request.disk_bus not in BUSES:
            raise invalid(f"Provided disk bus {request.disk_bus[:32]} is not valid.")
        if request.device_type and request.device_type not in DEVICE_TYPES:
            raise invalid(f"Provided device type {request.device_type[:32]} is not valid.")
        source = self.image or self.snapshot
        self.device = BlockDevice(
            position=position,
            source_type=request.source_type,
            destination_type=request.destination_type,
            source_id=source.id if source else None,
            volume_id=self.volume.id if self.volume else None,
            boot_index=request.boot_index if request.boot_index is not None and request.boot_index >= 0 else None,
            size=size,
            volume_type=request.volume_type,
            volume_name=check_text(request.volume_name, "volume_name"),
            delete_on_termination=request.delete_on_termination,
            device_name=request.device_name,
            disk_bus=request.disk_bus,
            device_type=request.device_type,
            guest_format=request.guest_format,
            tag=request.tag,
            made=request.destination_type == "volume" and self.volume is None,
        )

    @property
    def zone(self) -> str:
        """Availability zone that the disk's volume prescribes for the server; empty: none."""
        return self.volume.availability_zone if self.volume is not None and not settings.CROSS_AZ_ATTACH else ""

    def check_root(self, flavor: Flavor, named: Image | None) -> dict[str, str]:
        """Check that a server with this flavor can boot from the disk, and return the properties of its image.

        ``named`` is the image that the request contains in addition to its disks. As in Nova, its properties then
        replace those of the disk's source, and the disk may be blank.
        """
        volume = self.snapshot.volume if self.snapshot else self.volume
        if self.image is not None:
            check_memory(flavor, self.image)
            properties, least = boot_properties(self.image), self.image.min_disk
            data = size_of(self.image)
        elif volume is not None:
            if not volume.bootable:
                raise invalid(f"Block Device {volume.id} is not bootable.")
            properties = boot_properties_of_volume(volume.image_metadata)
            least, data = _number(volume.image_metadata.get("min_disk")), 0
        elif named is not None:
            check_memory(flavor, named)
            properties, least, data = {}, named.min_disk, 0
        else:
            raise invalid(BOOT_SEQUENCE)  # a blank volume is not bootable
        least = max(least, -(-data // GIB))
        if least > (self.device.size or 0):
            raise InvalidInputError(
                "Volume is smaller than the minimum size specified in image metadata. Volume size is"
                f" {(self.device.size or 0) * GIB} bytes, minimum size is {least * GIB} bytes.",
                field=FIELD,
            )
        return properties if named is None else boot_properties(named)


def _image(context: RequestContext, request: DiskRequest) -> Image:
    try:
        return images.usable_image_for(context, request.source_id or "")
    except (NotFoundError, InvalidInputError) as error:
        raise invalid(f"failed to get image {(request.source_id or '')[:64]}.") from error


def _volume(context: RequestContext, request: DiskRequest) -> Volume:
    try:
        return volumes.volume_for(context, _id(request))
    except NotFoundError as error:
        raise invalid(f"failed to get volume {(request.source_id or '')[:64]}.") from error


def _snapshot(context: RequestContext, request: DiskRequest) -> Snapshot:
    try:
        return volumes.snapshot_for(context, _id(request))
    except NotFoundError as error:
        raise invalid(f"failed to get snapshot {(request.source_id or '')[:64]}.") from error


def _id(request: DiskRequest) -> str:
    if read_id(request.source_id or "") is None:
        raise NotFoundError("There is no such id.")
    return request.source_id or ""


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | str) and str(value).isdigit() else 0
