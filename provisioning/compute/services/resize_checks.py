"""What a new size must satisfy before anything is written (Compute API reference, "Resize server (resize action)")."""

from __future__ import annotations

from typing import Any

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.extra_specs import aggregate_specs
from provisioning.compute.models import Flavor, Host, Instance
from provisioning.compute.selectors.host_rows import host_states
from provisioning.compute.services.checks import check_fit
from provisioning.compute.sizes import GIB, flavor_copy, root_gb
from provisioning.images.models import Image
from provisioning.scheduler import RequestSpec, explain, rank

FIELD = "flavorRef"
NOT_RESIZED = "Server disk was unable to be resized because: {reason}"


def wanted_size(context: RequestContext, instance: Instance, ref: str) -> dict[str, Any]:
    """Return the copy of the flavor that the server is to have.

    Raises InvalidInputError for a flavor that the caller cannot use, that the server has already, that the image does
    not fit into, or with less disk than the server has.
    """
    flavor = _flavor(context, ref)
    if instance.flavor["root_gb"] and not flavor.root_gb:
        raise _disk("Resize to zero disk flavor is not allowed.")
    if flavor.flavorid == instance.flavor["flavorid"]:
        raise InvalidInputError("When resizing, instances must change flavor!", field=FIELD)
    image = Image.objects.filter(id=instance.image_id).first() if instance.image_id else None
    if image is not None:
        check_fit(flavor, image)
    copy = flavor_copy(flavor, root_gb(instance.flavor) * GIB)
    _check_disks(instance.flavor, copy)
    return copy


def _flavor(context: RequestContext, ref: str) -> Flavor:
    try:
        return selectors.flavor_for(context, ref)
    except NotFoundError as error:
        raise InvalidInputError(error.message, field=FIELD) from error


def _check_disks(old: dict[str, Any], new: dict[str, Any]) -> None:
    for name, has, gets in (
        ("root", root_gb(old), root_gb(new)),
        ("ephemeral", old["ephemeral_gb"], new["ephemeral_gb"]),
    ):
        if gets < has:
            raise _disk(f"Its {name} disk has {has} GiB and cannot shrink to {gets} GiB.")


def _disk(reason: str) -> InvalidInputError:
    return InvalidInputError(NOT_RESIZED.format(reason=reason), field=FIELD)


def why_not_here(instance: Instance, host: Host, flavor: dict[str, Any]) -> str:
    """Say why the server's host will not do for this flavor, its room aside; empty when it will."""
    asked = aggregate_specs(flavor["extra_specs"])
    [state] = host_states({"aggregate_metadata"} if asked else (), only=host.id)
    properties = instance.image_properties
    architecture = str(properties.get("hw_architecture") or properties.get("architecture") or "")
    return explain(rank([state], RequestSpec(0, 0, 0, architecture=architecture, aggregate_specs=asked)))
