"""Access of projects to flavors that are not public."""

import uuid

from django.db import IntegrityError, transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.models import Flavor, FlavorAccess
from provisioning.identity import policy


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
