"""Calls of the Image API."""

from portal.dashboard.copy_as.calls import IMPLIED, POSITIONAL, Flag, Kind, attribute, part_of_path


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
