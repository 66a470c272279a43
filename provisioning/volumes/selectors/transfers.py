"""Transfers of volumes that are visible to a caller."""

from django.db.models import QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.volumes.models import Transfer


def visible_transfers(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Transfer]:
    """Return the transfers of the caller's project; ``all_projects`` is for operators."""
    rows = Transfer.objects.select_related("volume")
    if all_projects and context.is_admin:
        return rows
    return rows.filter(source_project_id=context.project_id or NOBODY)


def transfer_for(context: RequestContext, transfer_id: str) -> Transfer:
    """Return one transfer. Raises NotFoundError if it does not exist or belongs to another project."""
    transfer = visible_transfers(context, all_projects=True).filter(id=read_id(transfer_id) or NOBODY).first()
    if transfer is None:
        raise NotFoundError(f"Transfer {transfer_id[:64]} could not be found.")
    return transfer
