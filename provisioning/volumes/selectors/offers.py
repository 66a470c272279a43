"""QoS specs, group types, default types of projects, and messages."""

import uuid

from django.db.models import Q, QuerySet
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.volumes.models import DefaultType, GroupType, Message, QosSpec, VolumeType, VolumeTypeAccess


def qos_specs() -> QuerySet[QosSpec]:
    return QosSpec.objects.all()


def qos_spec(spec_id: str) -> QosSpec:
    """Return one QoS spec.  Raises NotFoundError."""
    row = QosSpec.objects.filter(id=read_id(spec_id) or NOBODY).first()
    if row is None:
        raise NotFoundError(f"No such qos spec {spec_id[:64]}.")
    return row


def group_types(context: RequestContext) -> QuerySet[GroupType]:
    """Return the public group types; operators see all."""
    rows = GroupType.objects.all()
    return rows if context.is_admin else rows.filter(is_public=True)


def group_type_for(context: RequestContext, named: str) -> GroupType:
    """Return the group type with this id or name.  Raises NotFoundError."""
    known = read_id(named)
    rows = group_types(context)
    group_type = rows.filter(Q(id=known) if known else Q(name=named)).first()
    if group_type is None:
        raise NotFoundError(f"Group type {named[:64]} could not be found.")
    return group_type


def projects_with_access(type_id: uuid.UUID) -> list[uuid.UUID]:
    """Return the projects with access to a type that is not public."""
    rows = VolumeTypeAccess.objects.filter(volume_type_id=type_id)
    return list(rows.order_by("project_id").values_list("project_id", flat=True))


def default_types() -> list[DefaultType]:
    """Return the default types of all projects that have one."""
    return list(DefaultType.objects.order_by("project_id"))


def default_type_record(project_id: uuid.UUID) -> DefaultType:
    """Return the default type of a project.  Raises NotFoundError if it has none."""
    default_type = DefaultType.objects.filter(project_id=project_id).first()
    if default_type is None:
        raise NotFoundError(f"Default type for project {project_id.hex} not found.")
    return default_type


def messages_for(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Message]:
    """Return the unexpired messages of the caller's project."""
    rows = Message.objects.filter(expires_at__gt=timezone.now())
    if all_projects and context.is_admin:
        return rows
    return rows.filter(project_id=context.project_id or NOBODY)


def message_for(context: RequestContext, message_id: str) -> Message:
    """Return one message.  Raises NotFoundError."""
    message = messages_for(context, all_projects=True).filter(id=read_id(message_id) or NOBODY).first()
    if message is None:
        raise NotFoundError(f"Message {message_id[:64]} could not be found.")
    return message


def type_names() -> list[str]:
    """Return the names of all types; each has its own quotas."""
    return list(VolumeType.objects.order_by("name").values_list("name", flat=True))
