"""Owners in requests: the caller's own project among them."""

from collections.abc import Iterable

from portal.api.ec2.registry import Call


def is_named(call: Call, owners: Iterable[str]) -> bool:
    """Whether the owners contain the caller's project: ``self``, or its id."""
    return bool({"self", call.project_id.hex, str(call.project_id)} & set(owners))
