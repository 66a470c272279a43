"""Rescue: a server starts from another disk, with its own as the second one, until it is unrescued."""

from __future__ import annotations

import uuid

from compute_agent.contract.commands import RescueRequest, UnrescueRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute.actions.base import Deed, begin
from provisioning.compute.guest_spec import guest_spec
from provisioning.compute.launch.checks import check_disk
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.images import selectors as images
from provisioning.images.models import Image
from provisioning.images.selectors.companions import companions

FIELD = "rescue_image_ref"


def rescue(
    context: RequestContext, instance_id: uuid.UUID | str, *, image_id: str | None = None, password: str | None = None
) -> Instance:
    """Start a server from ``image_id``, without one from a fresh copy of its own image.

    ``password``: the administrator's in the rescue system.  Raises NotFoundError, InvalidInputError for an image that
    cannot be used, InstanceBusyError, InstanceLockedError, UnavailableError when its host is down.
    """

    chosen: list[Image] = []

    def changes(instance: Instance) -> dict[str, object]:
        chosen[:] = [_image(context, instance, image_id)]
        return {"rescue_image_id": chosen[0].id}

    def order(instance: Instance) -> RescueRequest:
        spec = guest_spec(instance, rescue=chosen[0], password=password)
        return RescueRequest(instance=spec, ran=instance.vm_state == VmState.ACTIVE)

    return begin(context, instance_id, Deed("rescue", "rescue", order, changes))


def unrescue(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Start a rescued server from its own disk again; it is active then, whatever it was before.

    Raises NotFoundError, InstanceBusyError, InstanceLockedError, UnavailableError when its host is down.
    """
    return begin(
        context,
        instance_id,
        Deed("unrescue", "unrescue", lambda instance: UnrescueRequest(instance=guest_spec(instance))),
    )


def own_image(instance: Instance) -> Image:
    """Return the image a server was made from, which its project need not see any more; InvalidInputError when it
    cannot be used now.
    """
    image = Image.objects.filter(id=instance.image_id).first() if instance.image_id else None
    if image is None or image.status != Image.Status.ACTIVE:
        raise InvalidInputError("The server's own image cannot be used any more.", field="imageRef")
    return image


def _image(context: RequestContext, instance: Instance, image_id: str | None) -> Image:
    """Return what the server is to be rescued with; InvalidInputError when nothing can boot from it."""
    try:
        image = images.usable_image_for(context, image_id) if image_id else own_image(instance)
        companions(image, instance.project_id)
        check_disk(instance.flavor, image)  # the rescue disk lies on the host beside the server's own
    except InvalidInputError as error:
        raise InvalidInputError(error.message, field=FIELD) from error
    memory = instance.flavor["memory_mb"]
    if image.min_ram > memory:
        raise InvalidInputError(
            f"The image needs {image.min_ram} MiB of memory (min_ram); the server has {memory} MiB.", field=FIELD
        )
    return image
