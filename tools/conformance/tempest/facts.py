"""The facts about a cloud that outside suites need, read over its APIs as an administrator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import requests
from keystoneauth1.exceptions.base import ClientException
from keystoneauth1.identity.base import BaseIdentityPlugin
from openstack.config.cloud_region import CloudRegion

from tools.bench.cloud import BenchError

_VERSION = re.compile(r"/v\d[\d.]*(/.*)?$")
"""Versions in the path of a service's address in the catalog."""


class Reader(Protocol):
    """Reads JSON from a path below a service's endpoint; a path with a version is relative to the service's root.

    Returns None if the service does not know the path or refuses access.
    """

    def get(self, service: str, path: str) -> Any: ...


class ApiReader:
    """Reads as the user of a configured cloud."""

    def __init__(self, place: CloudRegion) -> None:
        self._place = place
        self._session = place.get_session()

    def sign_in(self) -> tuple[str, set[str]]:
        """Return the user's id and the types of services in the catalog. Raises BenchError if the sign-in fails."""
        auth = self._session.auth
        if not isinstance(auth, BaseIdentityPlugin):
            raise BenchError("the user of the cloud signs in without an identity service")
        try:
            access = auth.get_access(self._session)
        except ClientException as error:
            raise BenchError(str(error)) from error
        return str(access.user_id), {str(each["type"]) for each in access.service_catalog.normalize_catalog()}

    def get(self, service: str, path: str) -> Any:
        place = self._place
        try:
            found = self._session.get_endpoint(
                service_type=service, interface=place.get_interface(service), region_name=place.get_region_name(service)
            )
            root = str(found).rstrip("/")
            root = _VERSION.sub("", root) if path.startswith("/v") or path == "/" else root
            answer: requests.Response = self._session.get(f"{root}{path}", raise_exc=False)
        except ClientException as error:
            raise BenchError(f"{service} {path}: {error}") from error
        if answer.status_code in {403, 404}:
            return None
        if not answer.ok:
            raise BenchError(f"{service} {path}: {answer.status_code} {answer.text[:200]}")
        return answer.json()


@dataclass(frozen=True)
class Flavor:
    """A size: MiB of memory, GiB of disk."""

    id: str
    ram: int
    disk: int


@dataclass(frozen=True)
class Image:
    """An active image that boots from its own disk."""

    id: str
    size: int
    min_disk: int
    """GiB."""
    min_ram: int
    """MiB."""
    user: str
    """The login user of its guests, if the image specifies one."""
    disk_format: str = "raw"


@dataclass(frozen=True)
class Facts:
    """A cloud's facts as its APIs show them to an administrator. Microversions are texts like ``2.96``, empty if there
    are none.
    """

    services: frozenset[str]
    compute_microversion: str = ""
    volume_microversion: str = ""
    images: Sequence[Image] = ()
    flavors: Sequence[Flavor] = ()
    hypervisors: int = 0
    external_networks: Mapping[str, str] = field(default_factory=dict)
    """Name → id."""
    extensions: Sequence[str] = ()
    """Aliases of the Networking API."""
    pools: Sequence[Mapping[str, Any]] = ()
    """Capabilities of each storage pool."""
    backups: bool = False
    multiattach_type: str = ""
    import_methods: frozenset[str] = frozenset()
    disk_formats: Sequence[str] = ()
    container_formats: Sequence[str] = ()
    trusts: bool = False
    access_rules: bool = False

    def pool(self, capability: str) -> str:
        """Return a capability of the first storage pool; empty if it has none."""
        return str(self.pools[0].get(capability, "")) if self.pools else ""

    @property
    def vendor(self) -> str:
        """The vendor of its storage."""
        return self.pool("vendor_name")


def discover(reader: Reader, services: Iterable[str], user: str) -> Facts:
    """Read the facts from all services in the catalog; ``user`` is the id of the caller. Raises BenchError if a request
    fails.
    """
    there = frozenset(services)
    found: dict[str, Any] = {
        "services": there,
        "trusts": reader.get("identity", "/v3/OS-TRUST/trusts") is not None,
        "access_rules": reader.get("identity", f"/v3/users/{user}/access_rules") is not None,
    }
    if "compute" in there:
        found |= _compute(reader)
    if "image" in there:
        found |= _image(reader)
    if "network" in there:
        found |= _network(reader)
    if volume := next((name for name in ("block-storage", "volumev3", "volume") if name in there), ""):
        found |= _volume(reader, volume)
    return Facts(**found)


def _compute(reader: Reader) -> dict[str, Any]:
    root = reader.get("compute", "") or {}
    flavors = (reader.get("compute", "/flavors/detail") or {}).get("flavors", [])
    hypervisors = (reader.get("compute", "/os-hypervisors") or {}).get("hypervisors", [])
    sizes = [Flavor(str(one["id"]), one["ram"], one["disk"]) for one in flavors]
    return {
        "compute_microversion": root.get("version", {}).get("version", ""),
        "flavors": sorted(sizes, key=lambda size: (size.ram, size.disk)),
        "hypervisors": len(hypervisors),
    }


def _image(reader: Reader) -> dict[str, Any]:
    listed = (reader.get("image", "/v2/images?status=active&visibility=public&limit=100") or {}).get("images", [])
    plain = [one for one in listed if one.get("image_type") != "snapshot" and one.get("container_format") == "bare"]
    images = [
        Image(
            one["id"],
            one["size"] or 0,
            one["min_disk"],
            one["min_ram"],
            str(one.get("os_admin_user") or ""),
            one["disk_format"],
        )
        for one in plain
    ]
    methods = (reader.get("image", "/v2/info/import") or {}).get("import-methods", {}).get("value", [])
    shape = (reader.get("image", "/v2/schemas/image") or {}).get("properties", {})
    return {
        "images": sorted(images, key=lambda image: image.size),
        "import_methods": frozenset(methods),
        "disk_formats": _choices(shape, "disk_format"),
        "container_formats": _choices(shape, "container_format"),
    }


def _choices(shape: Mapping[str, Any], name: str) -> list[str]:
    return [one for one in shape.get(name, {}).get("enum", []) if one]


def _network(reader: Reader) -> dict[str, Any]:
    extensions = (reader.get("network", "/v2.0/extensions") or {}).get("extensions", [])
    networks = (reader.get("network", "/v2.0/networks?router:external=true") or {}).get("networks", [])
    return {
        "extensions": sorted(one["alias"] for one in extensions),
        "external_networks": {one["name"]: one["id"] for one in networks if one["subnets"]},
    }


def _volume(reader: Reader, service: str) -> dict[str, Any]:
    pools = (reader.get(service, "/scheduler-stats/get_pools?detail=true") or {}).get("pools", [])
    services = (reader.get(service, "/os-services?binary=cinder-backup") or {}).get("services", [])
    types = (reader.get(service, "/types") or {}).get("volume_types", [])
    versions = (reader.get(service, "/") or {}).get("versions", [])
    multiattach = [one["name"] for one in types if one.get("extra_specs", {}).get("multiattach") == "<is> True"]
    return {
        "volume_microversion": max((one.get("version", "") for one in versions), default="", key=_number),
        "pools": [pool["capabilities"] for pool in pools],
        "backups": any(one["state"] == "up" for one in services),
        "multiattach_type": next(iter(multiattach), ""),
    }


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")) if version else ()
