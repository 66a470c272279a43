"""The decision of an operator about the data of a volume if no host can report whether the guest has switched.

Until the operator decides, both copies are kept, and the volume is in ``error``.
"""

import uuid

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.services.checks import MIGRATING, locked_volume
from provisioning.volumes.services.updates import migrate
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import VolumeStatus


@when_broken_off
@transaction.atomic
def keep_data(context: RequestContext, volume_id: uuid.UUID | str, *, new: bool) -> Volume:
    """Keep the ``new`` or the old data of a volume's migration, and delete the other copy.

    Raises ForbiddenError, VolumeNotFoundError, and ConflictError if there is nothing to decide, or a guest has the old
    or the new data open on a host that is not forced down.
    """
    if not context.is_admin:
        raise ForbiddenError("Only operators may decide about the data of a volume.")
    volume = locked_volume(context, volume_id)
    hidden = migrate.open_data(volume)
    if hidden is None:
        raise ConflictError(f"Volume {volume.id} has no undecided data.")
    using = Attachment.objects.filter(volume_id__in=[volume.id, hidden.id]).exclude(connection={})
    if using.filter(host__forced_down=False).exists():
        raise ConflictError("A server has the volume open. Detach it, or force its host down if it is off.")
    retyping = volume.volume_type_id != hidden.volume_type_id
    Attachment.objects.filter(volume_id=hidden.id).delete()
    if new:
        migrate.exchange(volume, hidden)
        return volume
    migrate.drop_hidden(volume, retyping=retyping)
    if volume.migration_status == MIGRATING or volume.status == VolumeStatus.ERROR:
        state.move(volume, state.at_rest(volume), changes={"migration_status": migrate.FAILED}, reset=True)
    return volume
