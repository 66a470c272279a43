"""Whose a resource is: each module of actions says of its kinds how that is looked up."""

import uuid
from collections.abc import Callable, Collection

from portal.api.ec2.names import Kind
from provisioning.common.context import RequestContext

Lookup = Callable[[RequestContext, Collection[uuid.UUID]], Collection[uuid.UUID]]
"""Return which of these resources the caller's project owns."""
lookups: dict[str, Lookup] = {}
"""By the beginning of the ids."""


def register(kind: Kind, lookup: Lookup) -> None:
    """Make it known whose the resources of a kind are: those can have tags."""
    lookups[kind.prefix] = lookup
