"""Ownership of resources; each module of actions registers the rows of its kinds."""

import uuid
from collections.abc import Callable, Collection, Iterable
from typing import Any

from portal.api.ec2.names import Kind, Rows, with_keys
from portal.api.ec2.registry import Call
from provisioning.common.context import RequestContext
from provisioning.ec2.ids import resource_of

Owned = Callable[[RequestContext], "Rows[Any]"]
"""Returns the rows that the caller's project owns."""
kinds: dict[str, Owned] = {}
"""Prefix of the ids → the rows of the kind; resources of other kinds cannot be tagged."""


def register(kind: Kind, rows: Owned) -> None:
    """Register the rows of a kind; these resources can be tagged."""
    kinds[kind.prefix] = rows


def among(context: RequestContext, prefix: str, resources: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the resources that the caller's project owns."""
    rows = with_keys(kinds[prefix](context), resources)
    return {resource_of(key) for source in rows for key in source.values_list("pk", flat=True)}


def is_named(call: Call, owners: Iterable[str]) -> bool:
    """Whether the owners contain the caller's project: ``self``, or its id."""
    return bool({"self", call.project_id.hex, str(call.project_id)} & set(owners))
