"""Flavors with their extra specs and access, managed by operators. Instances keep a copy, so a flavor can be deleted
while it is in use."""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import IntegrityError, transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute import selectors
from provisioning.compute.flavors import extra_specs
from provisioning.compute.models import Flavor, FlavorAccess
from provisioning.compute.records.names import check_text
from provisioning.identity import policy

_ID = re.compile(r"[\w. -]{1,255}", re.ASCII)
MOST_RXTX = 3.40282e38
"""Maximum of single precision, Nova's limit."""

LONGEST = 255
"""Maximum number of characters of a key and of a value."""


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


def add_flavor_access(context: RequestContext, ref: str, project_id: uuid.UUID, *, private_only: bool = True) -> Flavor:
    """Give a project access to a flavor; ``private_only`` rejects a public flavor, to which all projects have access.

    Raises ForbiddenError, NotFoundError, ConflictError when the project has access, or the flavor is public.
    """
    policy.enforce(context, "os_compute_api:os-flavor-access:add_tenant_access")
    flavor = selectors.flavor_for(context, ref, disabled=True)
    if private_only and flavor.is_public:
        raise ConflictError("Can not add access to a public flavor.")
    try:
        with transaction.atomic():
            FlavorAccess.objects.create(flavor=flavor, project_id=project_id)
    except IntegrityError as error:
        if not Flavor.objects.filter(pk=flavor.pk).exists():
            raise NotFoundError(f"Flavor {ref} could not be found.") from error
        raise ConflictError(
            f"Flavor access already exists for flavor {flavor.flavorid} and project {project_id.hex} combination."
        ) from error
    return flavor


def remove_flavor_access(context: RequestContext, ref: str, project: uuid.UUID | str) -> Flavor:
    """Revoke the access of a project, which need not exist; its servers keep their copies of the flavor.

    ``project`` is text when it is not a valid id. Raises ForbiddenError, NotFoundError.
    """
    policy.enforce(context, "os_compute_api:os-flavor-access:remove_tenant_access")
    flavor = selectors.flavor_for(context, ref, disabled=True)
    removed = 0
    if isinstance(project, uuid.UUID):
        removed, _ = flavor.access.filter(project_id=project).delete()
    if not removed:
        shown = project.hex if isinstance(project, uuid.UUID) else project[:64]
        raise NotFoundError(f"Flavor access not found for {flavor.flavorid} / {shown} combination.")
    return flavor


def merge_extra_specs(
    context: RequestContext, ref: str, specs: Mapping[str, str | float], *, rule: str, known_only: bool = False
) -> Flavor:
    """Add or change extra specs and keep all others; numbers are stored as text.

    ``rule`` is the policy rule; ``known_only`` validates keys in the namespaces of the Compute API. Raises
    ForbiddenError, NotFoundError, InvalidInputError.
    """
    policy.enforce(context, rule)
    texts = {key: str(value) for key, value in specs.items()}
    for key, value in texts.items():
        if len(value) > LONGEST:
            raise InvalidInputError(
                f"Invalid input for {key}: extra_specs value has {len(value)} characters, more than {LONGEST}.",
                field=key,
            )
        if known_only:
            extra_specs.check(key, value)
    with transaction.atomic():
        flavor = _locked(ref)
        flavor.extra_specs = flavor.extra_specs | texts
        flavor.save(update_fields=["extra_specs"])
    return flavor


def delete_extra_spec(context: RequestContext, ref: str, key: str) -> None:
    """Remove an extra spec. Raises ForbiddenError, NotFoundError."""
    policy.enforce(context, "os_compute_api:os-flavor-extra-specs:delete")
    with transaction.atomic():
        flavor = _locked(ref)
        if flavor.extra_specs.pop(key, None) is None:
            raise NotFoundError(f"Flavor {flavor.flavorid} has no extra specs with key {key[:LONGEST]}.")
        flavor.save(update_fields=["extra_specs"])


def _locked(ref: str) -> Flavor:
    flavor = Flavor.objects.select_for_update().filter(flavorid=ref).first()
    if flavor is None:
        raise NotFoundError(f"Flavor {ref} could not be found.")
    return flavor
