"""Flavors, managed by operators. Instances keep a copy, so a flavor can be deleted while it is in use."""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import IntegrityError, transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute import selectors
from provisioning.compute.models import Flavor
from provisioning.compute.records.names import check_text
from provisioning.identity import policy

_ID = re.compile(r"[\w. -]{1,255}", re.ASCII)
MOST_RXTX = 3.40282e38
"""Maximum of single precision, Nova's limit."""


@dataclass(frozen=True, slots=True)
class FlavorRequest:
    """A flavor to create: memory and swap in MiB, disks in GiB. ``flavorid`` None: a random UUID."""

    name: str
    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int = 0
    swap_mb: int = 0
    flavorid: str | None = None
    description: str = ""
    is_public: bool = True
    rxtx_factor: float = 1.0
    extra_specs: Mapping[str, str] = field(default_factory=dict)


def create_flavor(context: RequestContext, request: FlavorRequest) -> Flavor:
    """Create a flavor. Raises ForbiddenError, InvalidInputError, ConflictError when the name or the id is in use."""
    policy.enforce(context, "os_compute_api:os-flavor-manage:create")
    name = check_text(request.name, "name", shortest=1)
    flavorid = str(uuid.uuid4()) if request.flavorid in (None, "", "auto") else str(request.flavorid)
    if not _ID.fullmatch(flavorid):
        raise InvalidInputError("Invalid input for id: use letters, digits, '.', '_', '-' and blanks.", field="id")
    _check_numbers(request)
    try:
        with transaction.atomic():
            return Flavor.objects.create(
                flavorid=flavorid,
                name=name,
                description=check_text(request.description, "description", longest=65_535),
                vcpus=request.vcpus,
                memory_mb=request.memory_mb,
                root_gb=request.root_gb,
                ephemeral_gb=request.ephemeral_gb,
                swap_mb=request.swap_mb,
                rxtx_factor=request.rxtx_factor,
                is_public=request.is_public,
                extra_specs=dict(request.extra_specs),
            )
    except IntegrityError as error:
        if Flavor.objects.filter(name=name).exists():
            raise ConflictError(f"Flavor with name {name} already exists.", field="name") from error
        raise ConflictError(f"Flavor with ID {flavorid} already exists.", field="id") from error


def delete_flavor(context: RequestContext, ref: str) -> None:
    """Delete a flavor. Raises ForbiddenError, NotFoundError."""
    policy.enforce(context, "os_compute_api:os-flavor-manage:delete")
    selectors.flavor_for(context, ref, disabled=True).delete()


def update_flavor(
    context: RequestContext,
    ref: str,
    *,
    description: str | None = None,
    is_public: bool | None = None,
    disabled: bool | None = None,
) -> Flavor:
    """Update attributes other than the sizes; None keeps a value. ``disabled``: the flavor cannot be launched.

    Raises ForbiddenError, NotFoundError, InvalidInputError.
    """
    policy.enforce(context, "os_compute_api:os-flavor-manage:update")
    columns: dict[str, str | bool] = {}
    if description is not None:
        columns["description"] = check_text(description, "description", longest=65_535)
    if is_public is not None:
        columns["is_public"] = is_public
    if disabled is not None:
        columns["disabled"] = disabled
    rows = Flavor.objects.filter(flavorid=ref)
    if not rows.exists():
        raise NotFoundError(f"Flavor {ref} could not be found.")
    if columns:
        rows.update(**columns)
    return rows.get()


def _check_numbers(request: FlavorRequest) -> None:
    least = {"vcpus": 1, "memory_mb": 1, "root_gb": 0, "ephemeral_gb": 0, "swap_mb": 0}
    names = {"memory_mb": "ram", "root_gb": "disk", "ephemeral_gb": "OS-FLV-EXT-DATA:ephemeral", "swap_mb": "swap"}
    for column, low in least.items():
        value = getattr(request, column)
        if not low <= value <= MAX_INTEGER:
            field = names.get(column, column)
            raise InvalidInputError(
                f"Invalid input for {field}: {value} is not from {low} to {MAX_INTEGER}.", field=field
            )
    if not 0 < request.rxtx_factor <= MOST_RXTX:
        raise InvalidInputError(
            f"Invalid input for rxtx_factor: it must be greater than 0 and at most {MOST_RXTX}.", field="rxtx_factor"
        )
