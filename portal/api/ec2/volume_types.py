"""Types of volumes in requests.

They are this cloud's, by name.  Amazon's names say nothing here, unless a type is called so: a volume gets the type
that it would get, or keeps the one it has, without a name.
"""

from portal.api.ec2.protocol.errors import Ec2Error
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.volumes.selectors import type_for

OF_AMAZON = frozenset({"standard", "io1", "io2", "gp2", "gp3", "sc1", "st1"})


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
