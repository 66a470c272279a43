"""Whose a resource is: each module of actions says of its kinds how that is looked up."""

import uuid
from collections.abc import Callable, Collection, Iterable

from portal.api.ec2.names import Kind
from portal.api.ec2.registry import Call
from provisioning.common.context import RequestContext

Lookup = Callable[[RequestContext, Collection[uuid.UUID]], Collection[uuid.UUID]]
"""Return which of these resources the caller's project owns."""
lookups: dict[str, Lookup] = {}
"""By the beginning of the ids."""


def register(kind: Kind, lookup: Lookup) -> None:
    """Make it known whose the resources of a kind are: those can have tags."""
    lookups[kind.prefix] = lookup


def is_named(call: Call, owners: Iterable[str]) -> bool:
    """Whether the caller's project is among owners: ``self``, or the ids of projects."""
    return bool({"self", call.project_id.hex, str(call.project_id)} & set(owners))
