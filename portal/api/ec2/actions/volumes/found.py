"""Volumes, snapshots and instances of the caller's project by EC2 id."""

from django.db.models import QuerySet

from portal.api.ec2 import names, owned
from portal.api.ec2.registry import Call
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance
from provisioning.volumes.models import Snapshot, Volume
from provisioning.volumes.selectors.access import visible_snapshots, visible_volumes
from provisioning.volumes.selectors.pools import servings


def volumes_of(context: RequestContext) -> QuerySet[Volume]:
    """Return the project's volumes with attachments and pools prefetched."""
    return visible_volumes(context).prefetch_related("attachments", servings("pool__"))


def volume_of(call: Call, ec2_id: str) -> Volume:
    """Return one volume. Raises Ec2Error."""
    return names.one(names.VOLUME, ec2_id, volumes_of(call.context))


def snapshot_of(call: Call, ec2_id: str) -> Snapshot:
    """Return one snapshot. Raises Ec2Error."""
    return names.one(names.SNAPSHOT, ec2_id, visible_snapshots(call.context))


def instance_of(call: Call, ec2_id: str) -> Instance:
    """Return one existing instance. Raises Ec2Error."""
    key = names.resource(names.INSTANCE, ec2_id)
    try:
        instance = compute.instance_for(call.context, key)
    except NotFoundError as error:
        raise names.not_found(names.INSTANCE, [ec2_id]) from error
    if instance.project_id != call.project_id:
        raise names.not_found(names.INSTANCE, [ec2_id])
    return instance


owned.register(names.VOLUME, visible_volumes)
owned.register(names.SNAPSHOT, visible_snapshots)
