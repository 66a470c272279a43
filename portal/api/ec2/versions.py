"""Versions of the Query protocol: all are accepted, and responses have the format of the newest."""

import re

from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error

NEWEST = "2016-11-15"
FIRST = "2006-06-26"
_FORM = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


def version_of(named: dict[str, str]) -> str:
    """Return the requested version. Raises Ec2Error if no version has this date."""
    version = named.get("Version")
    if not version:
        raise errors.missing_parameter("Version")
    if not _FORM.fullmatch(version) or not FIRST <= version <= NEWEST:
        raise Ec2Error("NoSuchVersion", f"The requested version ({version[:40]}) of service AmazonEC2 does not exist")
    return version
