"""Changes of a server that touch no host: name, description, metadata, and an operator's reset to ERROR."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.models import Instance
from provisioning.compute.names import check_hostname, check_name, check_text
from provisioning.compute.services import state
from provisioning.compute.services.checks import check_metadata
from provisioning.quotas import selectors as quotas

_UNSET: Any = object()


def update(
    context: RequestContext,
    instance_id: uuid.UUID | str,
    *,
    name: str | None = None,
    description: str | None = _UNSET,
    hostname: str | None = None,
) -> Instance:
    """Change a server's name, description (None: remove it) or host name.  Raises NotFoundError, InvalidInputError,
    ConflictError.
    """
    columns: dict[str, Any] = {}
    if name is not None:
        columns["name"] = check_name(name)
    if description is not _UNSET:
        columns["description"] = None if description is None else check_text(description, "description")
    if hostname is not None:
        columns["hostname"] = check_hostname(hostname)
    return _write(context, instance_id, columns)


def set_metadata(context: RequestContext, instance_id: uuid.UUID | str, metadata: Mapping[str, str]) -> Instance:
    """Replace a server's metadata.  Raises NotFoundError, InvalidInputError, OverQuotaError, ConflictError."""
    limits = quotas.limits_of(selectors.instance_for(context, instance_id).project_id)
    return _write(context, instance_id, {"metadata": check_metadata(metadata, limits)})


def merge_metadata(context: RequestContext, instance_id: uuid.UUID | str, metadata: Mapping[str, str]) -> Instance:
    """Add or change items of a server's metadata; the others stay.  Raises as ``set_metadata``."""
    instance = selectors.instance_for(context, instance_id)
    merged = check_metadata({**instance.metadata, **metadata}, quotas.limits_of(instance.project_id))
    return _write(context, instance_id, {"metadata": merged})


def delete_metadata(context: RequestContext, instance_id: uuid.UUID | str, key: str) -> Instance:
    """Remove one item of a server's metadata.  Raises NotFoundError, ConflictError."""
    metadata = dict(selectors.instance_for(context, instance_id).metadata)
    if metadata.pop(key, None) is None:
        raise NotFoundError("Metadata item was not found")
    return _write(context, instance_id, {"metadata": metadata})


def _write(context: RequestContext, instance_id: uuid.UUID | str, columns: dict[str, Any]) -> Instance:
    for _ in range(20):
        with transaction.atomic():
            instance = selectors.instance_for(context, instance_id)
            if not columns or state.update(instance, columns):
                return instance
    raise ConflictError("The server is changing too quickly; try again.")
