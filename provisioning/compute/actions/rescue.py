"""Rescue: a server boots from a rescue disk, with its own disk as the second one, until it is unrescued."""

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from compute_agent.contract.commands import RescueRequest, UnrescueRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute.actions.base import BROKE, Ending, HostAction, Prepared
from provisioning.compute.actions.ways import Button
from provisioning.compute.disks.block_devices import boots_from_volume
from provisioning.compute.flavors.guest_hardware import check_demands
from provisioning.compute.host_link.guest_agent import shutdown_seconds
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.launch.flavor_and_image import check_disk
from provisioning.compute.models import Instance
from provisioning.compute.selectors.host_offers import boot_properties, check_host_offers
from provisioning.compute.states import TaskState, VmState
from provisioning.images import selectors as images
from provisioning.images.models import Image
from provisioning.images.selectors.companions import companions

FIELD = "rescue_image_ref"
UNUSABLE_IMAGE = "The server's own image can no longer be used."
DEVICES = frozenset({"disk", "cdrom"})
BUSES = frozenset({"scsi", "virtio", "ide", "usb"})
"""Allowed values of ``hw_rescue_bus``, as ``DEVICES`` of ``hw_rescue_device``. With one of these properties on the
rescue image, the server's other disks keep their device names.
"""


@dataclass(frozen=True, slots=True)
class RescueWith:
    """Parameters of a rescue: the image (None: the server's own image) and the password of the rescue system."""

    image_id: str | None = None
    password: str | None = None
    boots_from_volume: bool = False
    """Whether a volume-backed server may be rescued (from microversion 2.87 on)."""


class Rescue(HostAction[RescueWith, RescueRequest]):
    """Boot a server from a rescue image."""

    key = record = api = notification = "rescue"
    done = "Rescued"
    doing = "Starting in rescue"
    rule = "os_compute_api:os-rescue"
    rule_description = "Rescue a server."
    takes_request = True
    from_states, task = (VmState.ACTIVE, VmState.STOPPED, VmState.ERROR), TaskState.RESCUING
    ends = {"rescued": VmState.RESCUED}
    timeout, heavy_io, remakes_guest = "BUILD_TIMEOUT", True, True
    body = RescueRequest

    def prepare(self, context: RequestContext, instance: Instance, request: RescueWith) -> Prepared:
        """Find the image. Raises InvalidInputError when it cannot be used."""
        if boots_from_volume(instance) and not request.boots_from_volume:
            raise InvalidInputError(
                f"Instance {instance.id} cannot be rescued: Cannot rescue a volume-backed instance", field=FIELD
            )
        if not request.image_id and instance.image_id is None:
            raise InvalidInputError("The server boots from a volume: specify the rescue image.", field=FIELD)
        image = _image(context, instance, request.image_id)
        return Prepared({"rescue_image_id": image.id}, (image, request.password, instance.vm_state == VmState.ACTIVE))

    def command(self, instance: Instance, prepared: Prepared) -> RescueRequest:
        image, password, ran = prepared.value
        spec = guest_spec(instance, rescue=image, password=password)
        return RescueRequest(instance=spec, ran=ran, timeout=shutdown_seconds(instance))

    def finished(self, instance: Instance, body: RescueRequest, outcome: Outcome) -> Ending:
        """End in ERROR after a timeout, because it is unknown which disk the guest runs from."""
        if outcome.well:
            return Ending()
        return Ending(BROKE if outcome.silent else None, {"rescue_image_id": None})


class Unrescue(HostAction[None, UnrescueRequest]):
    """Boot a rescued server from its own disk again; it becomes active, whatever its state was before the rescue."""

    key = record = api = notification = "unrescue"
    done = "Left rescue"
    doing = "Leaving rescue"
    rule = "os_compute_api:os-unrescue"
    rule_description = "Unrescue a server."
    from_states, task = (VmState.RESCUED,), TaskState.UNRESCUING
    ends = {"unrescued": VmState.ACTIVE}
    timeout, remakes_guest = "POWER_TIMEOUT", True
    body = UnrescueRequest
    button = Button(
        110,
        "unrescue",
        "Leave rescue",
        "life-preserver",
        "Start {name} from its own disk again?",
        "The rescue disk is removed.",
        "{name} leaves rescue.",
    )

    def command(self, instance: Instance, prepared: Prepared) -> UnrescueRequest:
        return UnrescueRequest(instance=guest_spec(instance), timeout=shutdown_seconds(instance))

    def finished(self, instance: Instance, body: UnrescueRequest, outcome: Outcome) -> Ending:
        """Delete the reference to the rescue image."""
        return Ending(columns={"rescue_image_id": None} if outcome.well else {})


def rescue(
    context: RequestContext,
    instance_id: uuid.UUID | str,
    *,
    image_id: str | None = None,
    password: str | None = None,
    boots_from_volume: bool = True,
) -> Instance:
    """Boot a server from ``image_id``, or from a fresh copy of its own image.

    ``password`` is the administrator's in the rescue system. ``boots_from_volume`` False rejects volume-backed servers.
    Raises InvalidInputError for an image that cannot be used, and the errors of host actions.
    """
    return Rescue.begin(context, instance_id, RescueWith(image_id, password, boots_from_volume))


def usable_images(ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the images among ``ids`` that exist and are active."""
    return (
        set(Image.objects.filter(id__in=ids, status=Image.Status.ACTIVE).values_list("id", flat=True)) if ids else set()
    )


def own_image(instance: Instance) -> Image:
    """Return the image that a server was created from, even if its project can no longer see it. Raises
    InvalidInputError when the image cannot be used.
    """
    image = Image.objects.filter(id=instance.image_id).first() if instance.image_id else None
    if image is None or image.status != Image.Status.ACTIVE:
        raise InvalidInputError(UNUSABLE_IMAGE, field="imageRef")
    return image


def _check_device(image: Image) -> None:
    """Reject unsupported device and bus properties of a rescue image (Nova's UnsupportedRescueDevice and …Bus)."""
    device, bus = (str(image.properties.get(name, "")) for name in ("hw_rescue_device", "hw_rescue_bus"))
    if device and device not in DEVICES:
        raise InvalidInputError(f"Requested rescue device '{device[:32]}' is not supported")
    if bus and (bus not in BUSES or (device, bus) == ("cdrom", "virtio")):
        raise InvalidInputError(f"Requested rescue bus '{bus[:32]}' is not supported")


def _image(context: RequestContext, instance: Instance, image_id: str | None) -> Image:
    """Return the rescue image. Raises InvalidInputError when the server cannot boot from it."""
    try:
        image = images.usable_image_for(context, image_id) if image_id else own_image(instance)
        companions(image, instance.project_id)
        if image_id:
            check_demands(image.properties, instance.flavor)
            check_host_offers(instance, boot_properties(image))
        _check_device(image)
        if not boots_from_volume(instance):
            check_disk(instance.flavor, image)  # stored on the host in addition to the server's disks
    except InvalidInputError as error:
        raise InvalidInputError(error.message, field=FIELD) from error
    memory = instance.flavor["memory_mb"]
    if image.min_ram > memory:
        raise InvalidInputError(
            f"The image needs {image.min_ram} MiB of memory; the server has {memory} MiB.", field=FIELD
        )
    return image
