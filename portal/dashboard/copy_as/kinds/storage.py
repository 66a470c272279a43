"""Calls of the Block Storage API."""

from portal.dashboard.copy_as.calls import POSITIONAL, Kind, attribute, edited, part_of_path

NAME = attribute("name", option=POSITIONAL)
DESCRIPTION = attribute("description")
FORCE = attribute("force", flags=("--force", ""), usual=False)

VOLUME = Kind(
    key="volume",
    service="volume",
    path="volumes",
    envelope="volume",
    attributes=(
        attribute("size"),
        attribute("volume_type", option="--type"),
        attribute("availability_zone"),
        attribute("image_id", body="imageRef", option="--image", ansible="image"),
        attribute("snapshot_id", option="--snapshot", ansible="snapshot"),
        attribute(
            "source_volume_id", body="source_volid", option="--source", terraform="source_vol_id", ansible="volume"
        ),
        attribute("backup_id", option="--backup", ansible=None),
        DESCRIPTION,
        NAME,
    ),
    command="volume create",
    python="block_storage.create_volume",
    terraform="openstack_blockstorage_volume_v3",
    ansible="openstack.cloud.volume",
    ansible_result="volume",
)
VOLUME_EDIT = edited(
    VOLUME,
    "volume",
    path="volumes/{volume}",
    command="volume set",
    python="block_storage.update_volume",
    without=("size", "volume_type", "availability_zone", "image_id", "snapshot_id", "source_volume_id", "backup_id"),
)
BOOTABLE = Kind(
    key="volume",
    service="volume",
    path="volumes/{volume}/action",
    envelope="os-set_bootable",
    attributes=(
        part_of_path("volume"),
        attribute("bootable", python=POSITIONAL, flags=("--bootable", "--non-bootable")),
    ),
    command="volume set",
    python="block_storage.set_volume_bootable_status",
)
READ_ONLY = Kind(
    key="volume",
    service="volume",
    path="volumes/{volume}/action",
    envelope="os-update_readonly_flag",
    attributes=(
        part_of_path("volume"),
        attribute("read_only", body="readonly", python=POSITIONAL, flags=("--read-only", "--read-write")),
    ),
    command="volume set",
    python="block_storage.set_volume_readonly",
)
_REF = attribute("ref", option="--remote-source", since="3.8")
MANAGED_VOLUME = Kind(
    key="volume",
    service="volume",
    path="manageable_volumes",
    envelope="volume",
    attributes=(
        attribute("host"),
        _REF,
        attribute("volume_type", option="--type"),
        attribute("bootable", flags=("--bootable", ""), usual=False),
        DESCRIPTION,
        NAME,
    ),
    command="volume create",
    python="block_storage.manage_volume",
)
SNAPSHOT = Kind(
    key="snapshot",
    service="volume",
    path="snapshots",
    envelope="snapshot",
    attributes=(attribute("volume_id", option="--volume", ansible="volume"), FORCE, DESCRIPTION, NAME),
    command="volume snapshot create",
    python="block_storage.create_snapshot",
    ansible="openstack.cloud.volume_snapshot",
    ansible_result="volume_snapshot",
)
MANAGED_SNAPSHOT = Kind(
    key="snapshot",
    service="volume",
    path="manageable_snapshots",
    envelope="snapshot",
    attributes=(attribute("volume_id", option="--volume"), _REF, DESCRIPTION, NAME),
    command="volume snapshot create",
    python="block_storage.manage_snapshot",
)
SNAPSHOT_EDIT = edited(
    SNAPSHOT,
    "snapshot",
    path="snapshots/{snapshot}",
    command="volume snapshot set",
    python="block_storage.update_snapshot",
    without=("volume_id", "force"),
)
BACKUP = Kind(
    key="backup",
    service="volume",
    path="backups",
    envelope="backup",
    attributes=(
        attribute("incremental", flags=("--incremental", ""), ansible="is_incremental", usual=False),
        FORCE,
        DESCRIPTION,
        attribute("name"),
        attribute("volume_id", option=POSITIONAL, ansible="volume"),
    ),
    command="volume backup create",
    python="block_storage.create_backup",
    ansible="openstack.cloud.volume_backup",
    ansible_result="backup",
)
TRANSFER = Kind(
    key="transfer",
    service="volume",
    path="volume-transfers",
    envelope="transfer",
    attributes=(
        attribute("no_snapshots", flags=("--no-snapshots", ""), usual=False),
        attribute("name"),
        attribute("volume_id", option=POSITIONAL, since="3.55"),
    ),
    command="volume transfer request create",
    python="block_storage.create_transfer",
)
ACCEPTED_TRANSFER = Kind(
    key="transfer",
    service="volume",
    path="volume-transfers/{transfer}/accept",
    envelope="accept",
    attributes=(part_of_path("transfer", since="3.55"), attribute("auth_key", python=POSITIONAL)),
    command="volume transfer request accept",
    python="block_storage.accept_transfer",
)
VOLUME_IMAGE = Kind(
    key="image",
    service="volume",
    path="volumes/{volume}/action",
    envelope="os-volume_upload_image",
    attributes=(
        part_of_path("volume", option="--volume", ansible="volume"),
        attribute("disk_format"),
        FORCE,
        attribute("name", body="image_name", option=POSITIONAL, python=POSITIONAL),
    ),
    command="image create",
    python="block_storage.upload_volume_to_image",
    ansible="openstack.cloud.image",
)
EXTEND = Kind(
    key="size",
    service="volume",
    path="volumes/{volume}/action",
    envelope="os-extend",
    attributes=(part_of_path("volume"), attribute("size", body="new_size", python=POSITIONAL)),
    command="volume set",
    python="block_storage.extend_volume",
)
RETYPE = Kind(
    key="type",
    service="volume",
    path="volumes/{volume}/action",
    envelope="os-retype",
    attributes=(
        part_of_path("volume"),
        attribute("volume_type", body="new_type", option="--type", python=POSITIONAL),
        attribute("migration_policy", option="--retype-policy"),
    ),
    command="volume set",
    python="block_storage.retype_volume",
)
RESTORE = Kind(
    key="restore",
    service="volume",
    path="backups/{backup}/restore",
    envelope="restore",
    attributes=(part_of_path("backup"), attribute("volume_id", option=POSITIONAL)),
    command="volume backup restore",
    python="block_storage.restore_backup",
    answer="restore",
)
