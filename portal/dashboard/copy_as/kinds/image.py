"""Calls of the Image API."""

from collections.abc import Mapping
from dataclasses import replace

from portal.dashboard.copy_as.calls import IMPLIED, POSITIONAL, WHOLE, Call, Flag, Kind, attribute, part_of_path


def _flag(visibility: str) -> Flag:
    return Flag(f"--{visibility}")


IMAGE = Kind(
    key="image",
    service="image",
    path="v2/images",
    envelope="",
    answer=".",
    attributes=(
        attribute("disk_format"),
        attribute("container_format"),
        attribute("visibility", option=POSITIONAL, convert={"option": _flag}),
        attribute("min_disk", terraform="min_disk_gb", usual=0),
        attribute("min_ram", terraform="min_ram_mb", usual=0),
        attribute("login", body="os_admin_user", option="--property", python="os_admin_user",
                  terraform="properties.os_admin_user", ansible="properties.os_admin_user",
                  convert={"option": lambda user: {"os_admin_user": user}}),
        attribute("file", body=IMPLIED, python="filename", terraform="local_file_path", ansible="filename"),
        attribute("uri", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform="image_source_url"),
        attribute("web_download", body=IMPLIED, option=IMPLIED, python=IMPLIED, ansible=IMPLIED),
        attribute("import_method", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform=IMPLIED),
        attribute("use_import", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform=IMPLIED),
        attribute("name", option=POSITIONAL),
    ),
    command="image create",
    python="image.create_image",
    terraform="openstack_images_image_v2",
    ansible="openstack.cloud.image",
    ansible_result="image",
)  # fmt: skip
DATA = Kind(
    key="image",
    service="image",
    path="v2/images/{image}/file",
    envelope="",
    attributes=(part_of_path("image"), attribute("file", body="@")),
    command=IMPLIED,
    python=IMPLIED,
    terraform=IMPLIED,
    ansible=IMPLIED,
    method="PUT",
)
"""The file of a new image; curl alone sends it separately."""
IMPORT = Kind(
    key="image",
    service="image",
    path="v2/images/{image}/import",
    envelope="",
    attributes=(
        attribute("method", body="method.name"),
        attribute("uri", body="method.uri"),
        part_of_path("image"),
    ),
    command="image import",
    python="image.import_image",
    terraform=IMPLIED,
    ansible=IMPLIED,
)
PATCH = "application/openstack-images-v2.1-json-patch"


def _patch(properties: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {"op": "add", "path": f"/{name}", "value": value} if value else {"op": "remove", "path": f"/{name}"}
        for name, value in properties.items()
    ]


def _given(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if value}


HARDWARE = Kind(
    key="image",
    service="image",
    path="v2/images/{image}",
    envelope="",
    attributes=(
        part_of_path("image", convert={"python": lambda image: f"/images/{image}"}),
        attribute("properties", body=WHOLE, option="--property", python="json",
                  convert={"body": _patch, "option": _given, "python": _patch}),
    ),
    command="image set",
    python="image.patch",
    method="PATCH",
    content=PATCH,
    extra={"python": {"headers": {"Content-Type": PATCH}}},
)  # fmt: skip
"""Properties of an image; those with an empty value are removed."""
HARDWARE_REMOVED = Kind(
    key="image",
    service="image",
    path=IMPLIED,
    envelope="",
    attributes=(
        part_of_path("image"),
        attribute("removed", body=IMPLIED, option="--property", python=IMPLIED),
    ),
    command="image unset",
    python=IMPLIED,
)


def properties_changed(image: str, properties: Mapping[str, str]) -> list[Call]:
    """Return the calls that set properties of an image, and remove those with an empty value."""
    removed = [name for name, value in properties.items() if not value]
    kind = HARDWARE if len(removed) < len(properties) else replace(HARDWARE, command=IMPLIED)
    calls = [Call(kind, {"image": image, "properties": properties})]
    return [*calls, Call(HARDWARE_REMOVED, {"image": image, "removed": removed})] if removed else calls


MEMBER = Kind(
    key="member",
    service="image",
    path="v2/images/{image}/members",
    envelope="",
    answer=".",
    attributes=(
        part_of_path("image", terraform="image_id"),
        attribute("member", option=POSITIONAL, python="member_id", terraform="member_id"),
    ),
    command="image add project",
    python="image.add_member",
    terraform="openstack_images_image_access_v2",
)
