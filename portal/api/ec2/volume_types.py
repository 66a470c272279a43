"""Volume types in requests.

A request specifies a volume type of this cloud by name. AWS type names (gp3, io1) are stored and shown, but otherwise
ignored unless a volume type has that name: the volume gets the default type or keeps its own.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.ec2 import given
from provisioning.volumes.selectors import type_for

OF_AMAZON = frozenset({"standard", "io1", "io2", "gp2", "gp3", "sc1", "st1"})
SPEEDS = frozenset({"Iops", "Throughput"})


def type_asked(context: RequestContext, name: str | None) -> str:
    """Return the name of the requested type, or an empty text if none is requested. Raises Ec2Error for a type that the
    caller may not use.
    """
    if not name:
        return ""
    try:
        return type_for(context, name).name
    except NotFoundError as error:
        if name in OF_AMAZON:
            return ""
        raise Ec2Error("UnknownVolumeType", f"Unsupported volume type '{name[:120]}'.") from error


def of_amazon(arguments: Mapping[str, Any], found: str) -> dict[str, Any] | None:
    """Return the AWS type of a request and its speeds if ``type_asked`` found no type of this cloud.

    ``Iops`` and ``Throughput`` are stored and shown only with AWS types. They are rejected with Ec2Error if the request
    has no AWS type, because a type of this cloud determines the speed itself.
    """
    given_with = {name: arguments[name] for name in (*SPEEDS, "VolumeType") if arguments.get(name) is not None}
    if given_with.keys() & SPEEDS and (found or "VolumeType" not in given_with):
        raise errors.unsupported("How fast a volume is follows from its type: name one without Iops and Throughput")
    return given_with if given_with and not found else None


def store_requested(project_id: uuid.UUID, volume_id: uuid.UUID, requested: Mapping[str, Any] | None) -> None:
    """Store the result of ``of_amazon``, replacing a previous one."""
    if requested:
        given.keep(project_id, volume_id, {given.VOLUME_TYPE: dict(requested)})
    else:
        given.forget(volume_id, given.VOLUME_TYPE)
