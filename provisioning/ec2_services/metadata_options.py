"""Metadata options of servers, such as whether their metadata service requires a token."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.compute import selectors
from provisioning.compute.host_link import guest_changes
from provisioning.compute.state_machine import state
from provisioning.ec2 import given


@when_broken_off
def set_metadata_options(context: RequestContext, instance_id: uuid.UUID, columns: Mapping[str, Any]) -> None:
    """Change columns of ``ec2.MetadataOptions`` and notify the server's host. Raises NotFoundError."""
    with transaction.atomic():
        state.lock([selectors.instance_for(context, instance_id).id])
        instance = selectors.instance_for(context, instance_id)
        given.write(instance.project_id, [instance.id], columns)
        guest_changes.changed(instance, [guest_changes.METADATA_OPTIONS] if columns else [])
