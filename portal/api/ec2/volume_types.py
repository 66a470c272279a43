"""Types of volumes in requests.

They are this cloud's, by name.  Amazon's names choose nothing here, unless a type is called so: a volume gets the type
that it would get, or keeps the one it has, without a name.  They are kept and shown as they came.
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
    """Return the name of the type that is asked for, empty without one; Ec2Error for what the caller may not use."""
    if not name:
        return ""
    try:
        return type_for(context, name).name
    except NotFoundError as error:
        if name in OF_AMAZON:
            return ""
        raise Ec2Error("UnknownVolumeType", f"Unsupported volume type '{name[:120]}'.") from error


def of_amazon(said: Mapping[str, Any], found: str) -> dict[str, Any] | None:
    """Return what a request says of one of Amazon's types where ``type_asked`` has found no type of this cloud's.

    ``Iops`` and ``Throughput`` belong to Amazon's types, and are shown again with them: how fast a volume is follows
    from the types of this cloud, so that they are refused (Ec2Error) beside one.
    """
    given_with = {name: said[name] for name in (*SPEEDS, "VolumeType") if said.get(name) is not None}
    if given_with.keys() & SPEEDS and (found or "VolumeType" not in given_with):
        raise errors.unsupported("How fast a volume is follows from its type: name one without Iops and Throughput")
    return given_with if given_with and not found else None


def keep_asked(project_id: uuid.UUID, volume_id: uuid.UUID, asked: Mapping[str, Any] | None) -> None:
    """Keep what ``of_amazon`` has found, in the place of an earlier type."""
    if asked:
        given.keep(project_id, volume_id, {given.VOLUME_TYPE: dict(asked)})
    else:
        given.forget(volume_id, given.VOLUME_TYPE)
