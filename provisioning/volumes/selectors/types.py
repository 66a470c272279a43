"""Volume types that a caller may use."""

import uuid

from django.db.models import Exists, OuterRef, Q, QuerySet, UUIDField

from provisioning.common.context import RequestContext
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.volumes.models import DefaultType, VolumeType, VolumeTypeAccess

DEFAULT = "__DEFAULT__"
"""The name of Cinder's default type, for volumes without a specified type."""


def visible_types(context: RequestContext) -> QuerySet[VolumeType]:
    """Return public types and types that the caller's project has access to; operators see all."""
    rows = _rows()
    if context.is_admin:
        return rows
    records = VolumeTypeAccess.objects.filter(volume_type=OuterRef("pk"), project_id=context.project_id or NOBODY)
    return rows.filter(Q(is_public=True) | Q(Exists(records)))


def type_for(context: RequestContext, named: str | uuid.UUID) -> VolumeType:
    """Return the type with this id or name.  Raises NotFoundError."""
    known = read_id(named)
    rows = visible_types(context)
    volume_type = (rows.filter(id=known).first() if known else None) or rows.filter(name=str(named)).first()
    if volume_type is None:
        raise NotFoundError(f"Volume type {str(named)[:255]} could not be found.", field="volume_type")
    return volume_type


def default_type(project_id: uuid.UUID) -> VolumeType | None:
    """Return the default type of a project: its own, otherwise the cloud's."""
    return _OWN_DEFAULT.first(project_id=project_id) or _DEFAULT.first()


def _rows() -> QuerySet[VolumeType]:
    return VolumeType.objects.select_related("qos_spec", "encryption")


_OWN_DEFAULT = Prepared(
    lambda project_id: _rows().filter(id__in=DefaultType.objects.filter(project_id=project_id).values("volume_type")),
    project_id=UUIDField(),
)
_DEFAULT = Prepared(lambda: _rows().filter(name=DEFAULT))
