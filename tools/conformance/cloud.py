"""The cloud that a suite tests: a cloud of clouds.yaml, the cloud of the ``OS_`` variables, or a new cloud."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openstack.config.cloud_region import CloudRegion
from openstack.connection import Connection

from tools.bench.cloud import BenchError, Cloud
from tools.bench.over_http.target import region
from tools.conformance.tempest.configuration import Administrator

HOSTS = 2
CAPACITY = "512:1048576:8000"
"""vCPUs, MiB of memory and GiB of disk of a simulated host: enough for all servers that a suite launches at a time."""
SECOND_IMAGE = "conformance-second"
MULTIATTACH = "multiattach"


def named(name: str) -> tuple[CloudRegion, Administrator]:
    """Return a cloud of clouds.yaml, or with ``envvars`` the cloud of the variables, and its administrator.

    Raises BenchError if its configuration has no password, which suites need.
    """
    place = region(name)
    return place, administrator(place)


def administrator(place: CloudRegion) -> Administrator:
    auth = place.config.get("auth", {})
    for wanted in ("auth_url", "username", "password", "project_name"):
        if not auth.get(wanted):
            raise BenchError(f"the configuration of the cloud has no {wanted}")
    verify, _ = place.get_requests_verify_args()
    return Administrator(
        auth_url=auth["auth_url"],
        username=auth["username"],
        password=auth["password"],
        project=auth["project_name"],
        user_domain=auth.get("user_domain_name") or "Default",
        project_domain=auth.get("project_domain_name") or "Default",
        region=place.get_region_name("identity") or "RegionOne",
        ca_file=verify if isinstance(verify, str) else "",
        insecure=verify is False,
    )


def wanted_by_variables() -> bool:
    return bool(os.environ.get("OS_AUTH_URL") or os.environ.get("OS_CLOUD"))


@contextmanager
def own(folder: Path, *, real: bool) -> Iterator[Cloud]:
    """Start a cloud with simulated hosts, or with this machine as host if ``real``; remove it at the end."""
    hosts = 0 if real else HOSTS
    cloud = Cloud(folder, hosts, NOVELLA_AGENT_FAKE_CAPACITY=CAPACITY)
    try:
        cloud.up()
        yield cloud
    finally:
        cloud.clean()


def own_region(cloud: Cloud, user: str = "admin") -> CloudRegion:
    return region(user, config_files=[str(cloud.data / "clouds.yaml")], load_envvars=False)


def download(place: CloudRegion, image: str, file: Path) -> None:
    """Write the data of an image into a file."""
    connection = Connection(config=place)
    file.write_bytes(connection.image.download_image(image).content)
    connection.close()


def prepare(place: CloudRegion) -> None:
    """Create resources that suites expect and a new cloud does not have: a second public image, and a volume type for
    multiattach.
    """
    connection = Connection(config=place)
    first = next(image for image in connection.image.images(status="active") if image.visibility == "public")
    data = connection.image.download_image(first.id).content
    about = {"disk_format": first.disk_format, "container_format": first.container_format, "visibility": "public"}
    connection.image.upload_image(container_format=about.pop("container_format"), name=SECOND_IMAGE, data=data, **about)
    connection.block_storage.create_type(name=MULTIATTACH, extra_specs={"multiattach": "<is> True"})
    connection.close()
