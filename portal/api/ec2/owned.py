"""Ownership of resources; each module of actions registers a lookup for its kinds."""

import uuid
from collections.abc import Callable, Collection, Iterable

from portal.api.ec2.names import Kind
from portal.api.ec2.registry import Call
from provisioning.common.context import RequestContext

Lookup = Callable[[RequestContext, Collection[uuid.UUID]], Collection[uuid.UUID]]
"""Returns the subset of the resources that the caller's project owns."""
lookups: dict[str, Lookup] = {}
"""Prefix of the ids → lookup."""


def register(kind: Kind, lookup: Lookup) -> None:
    """Register the ownership lookup of a kind; its resources can then be tagged."""
    lookups[kind.prefix] = lookup


def is_named(call: Call, owners: Iterable[str]) -> bool:
    """Whether the owners contain the caller's project: ``self``, or its id."""
    return bool({"self", call.project_id.hex, str(call.project_id)} & set(owners))
