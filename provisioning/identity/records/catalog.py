"""The services of this cloud in the catalog, and the placeholders in endpoint URLs."""

import re
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import read_id

INTERFACES = ("public", "internal", "admin")
LONGEST_URL = 1024
_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "novella:catalog")
_SUBSTITUTION = re.compile(r"[$%]\((\w*)\)s", re.ASCII)
_FORM = re.compile(r"(?:(?:https?|wss?)://[^\s/]|[$%]\(public_url\)s(?:/|\Z))\S*\Z")
_KNOWN = frozenset({"project_id", "tenant_id", "public_url"})


class OwnService(NamedTuple):
    """A service of this cloud."""

    type: str
    name: str
    """The name that OpenStack tools expect."""
    description: str
    path: str
    """The path of its endpoint, after the public URL; it may end with ``$(project_id)s``."""

    @property
    def face(self) -> str:
        """The first part of the path, such as ``compute`` or ``volume``."""
        return self.path.split("/")[1]

    @property
    def id(self) -> uuid.UUID:
        """The id of the service, the same on all machines."""
        return uuid.uuid5(_SPACE, self.type)

    def endpoint_id(self, interface: str) -> uuid.UUID:
        """Return the id of an endpoint, the same on all machines."""
        return uuid.uuid5(_SPACE, f"{self.type}/{interface}")

    @property
    def url(self) -> str:
        """The endpoint's URL as stored."""
        return f"$(public_url)s{self.path}"


OWN = (
    OwnService("identity", "keystone", "Identity service", "/identity/v3"),
    OwnService("compute", "nova", "Compute service", "/compute/v2.1"),
    OwnService("image", "glance", "Image service", "/image"),
    OwnService("network", "neutron", "Network service", "/network"),
    OwnService("block-storage", "cinder", "Block Storage service", "/volume/v3/$(project_id)s"),
    OwnService("volumev3", "cinderv3", "Block Storage service, by its older type", "/volume/v3/$(project_id)s"),
    OwnService("ec2", "ec2", "EC2 service", "/ec2/"),
)
PATHS = {own.face: own.path.removesuffix("/$(project_id)s") for own in OWN}
"""First part of the path → path of the endpoint, without the project id."""


def check_url(url: str) -> None:
    """Raise InvalidInputError for an invalid URL of an endpoint.

    The URL must begin with ``http``, ``https``, ``ws``, ``wss`` or ``$(public_url)s``, and may contain
    ``$(project_id)s`` or ``$(tenant_id)s``; ``%`` may be used instead of ``$``.
    """
    if len(url) > LONGEST_URL or "\0" in url:
        raise InvalidInputError(f"The url must have at most {LONGEST_URL} characters.", field="url")
    unknown = sorted(set(_SUBSTITUTION.findall(url)) - _KNOWN)
    if unknown:
        known = ", ".join(f"$({name})s" for name in sorted(_KNOWN))
        raise InvalidInputError(f"Malformed endpoint url: $({unknown[0]})s is not one of {known}.", field="url")
    rest = _SUBSTITUTION.sub("", url)
    if "$(" in rest or "%(" in rest or not _FORM.match(url):
        raise InvalidInputError(
            f"Malformed endpoint url: {url[:120]}. It must begin with http://, https://, ws://, wss:// or"
            " $(public_url)s, and have no spaces.",
            field="url",
        )


def filled(url: str, public_url: str, project_id: uuid.UUID | None) -> str | None:
    """Return the URL for clients, or None if it needs a project id and there is none."""
    values = {"public_url": public_url}
    if project_id is not None:
        values |= {"project_id": project_id.hex, "tenant_id": project_id.hex}
    if not _KNOWN.intersection(_SUBSTITUTION.findall(url)) <= values.keys():
        return None
    return _SUBSTITUTION.sub(lambda match: values.get(match[1], match[0]), url)


def is_filtered_by(
    filters: Mapping[str, Any], service_id: uuid.UUID, region_id: str | None, interface: str | None, *, enabled: bool
) -> bool:
    """Return whether an endpoint with these attributes matches the filters of an endpoint group."""
    if "service_id" in filters and read_id(filters["service_id"]) != service_id:
        return False
    others = {"region_id": region_id, "interface": interface, "enabled": enabled}
    return all(filters[name] == value for name, value in others.items() if name in filters)
