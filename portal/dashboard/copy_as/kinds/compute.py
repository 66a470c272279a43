"""Calls of the Compute API."""

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from portal.dashboard.copy_as.calls import IMPLIED, POSITIONAL, Call, Flag, Joined, Kind, Piped, attribute, part_of_path

NAME = attribute("name", option=POSITIONAL)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _named(groups: Sequence[str]) -> list[dict[str, str]]:
    return [{"name": each} for each in groups]


def _interfaces(rows: Sequence[Mapping[str, Any]]) -> list[Joined]:
    names = {"uuid": "net-id", "port": "port-id", "fixed_ip": "v4-fixed-ip"}
    return [Joined([(names[key], value) for key, value in row.items()]) for row in rows]


def _nics(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = {"uuid": "net-id", "port": "port-id", "fixed_ip": "fixed_ip"}
    return [{names[key]: value for key, value in row.items()} for row in rows]


def _network_blocks(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"fixed_ip_v4" if key == "fixed_ip" else key: value for key, value in row.items()} for row in rows]


def _devices(rows: Sequence[Mapping[str, Any]]) -> list[Joined]:
    return [
        Joined([(key, str(value).lower() if isinstance(value, bool) else value) for key, value in row.items()])
        for row in rows
        if row.get("destination_type") != "local"  # the command adds the image's own disk
    ]


SERVER = Kind(
    key="server",
    service="compute",
    path="servers",
    envelope="server",
    attributes=(
        attribute("image_id", body="imageRef", option="--image", ansible="image"),
        attribute("boot_image", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform=IMPLIED, ansible="image"),
        attribute("boot_volume", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform=IMPLIED),
        attribute("boot_snapshot", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform=IMPLIED, ansible=None),
        attribute("boot_from_volume", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform=IMPLIED),
        attribute("volume_size", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform=IMPLIED),
        attribute("terminate_volume", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform=IMPLIED, usual=False),
        attribute("flavor_id", body="flavorRef", option="--flavor", ansible="flavor"),
        attribute("networks", option="--nic", terraform="network", ansible="nics", block=True,
                  convert={"option": _interfaces, "ansible": _nics, "terraform": _network_blocks}),
        attribute("no_network", body="networks", option="--nic", python="networks", terraform="network_mode",
                  ansible=None, since="2.37",
                  convert=dict.fromkeys(("body", "option", "python", "terraform"), lambda _: "none")),
        attribute("key_name", terraform="key_pair"),
        attribute("password", body="adminPass", option="--password", python="admin_password", terraform="admin_pass",
                  ansible=None),
        attribute("security_groups", option="--security-group", terraform=IMPLIED,
                  convert={"body": _named, "python": _named}),
        attribute("security_group_names", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform="security_groups",
                  ansible=IMPLIED),
        attribute("devices", body="block_device_mapping_v2", option="--block-device", python="block_device_mapping",
                  terraform="block_device", ansible=IMPLIED, block=True, convert={"option": _devices}),
        attribute("more_disks", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform=IMPLIED, ansible=None),
        attribute("user_data", option="--user-data", ansible="userdata",
                  convert={"body": _encoded, "python": _encoded, "option": Piped}),
        attribute("metadata", option="--property"),
        attribute("tags", option="--tag", since="2.52"),
        attribute("availability_zone"),
        attribute("server_group", body="^os:scheduler_hints.group", option="--server-group",
                  python="scheduler_hints.group", terraform="scheduler_hints", ansible="scheduler_hints.group",
                  block=True, convert={"terraform": lambda group: [{"group": group}]}),
        attribute("config_drive", flags=("--use-config-drive", ""), usual=False),
        attribute("description", terraform=None, since="2.19"),
        NAME,
    ),
    command="server create",
    python="compute.create_server",
    terraform="openstack_compute_instance_v2",
    ansible="openstack.cloud.server",
    ansible_result="server",
    extra={"ansible": {"auto_ip": False}},
)  # fmt: skip
SERVER_EDIT = Kind(
    key="server",
    service="compute",
    path="servers/{server}",
    envelope="server",
    attributes=(
        attribute("name"),
        attribute("description", since="2.19", keeps_empty=True),
        attribute("hostname", since="2.90"),
        part_of_path("server"),
    ),
    command="server set",
    python="compute.update_server",
    method="PUT",
)
KEY_PAIR = Kind(
    key="key_pair",
    service="compute",
    path="os-keypairs",
    envelope="keypair",
    attributes=(
        attribute("public_key", convert={"option": Piped}),
        attribute("algorithm", body=None, option=None, python=None, terraform=None, ansible=None, usual="ed25519"),
        NAME,
    ),
    command="keypair create",
    python="compute.create_keypair",
    terraform="openstack_compute_keypair_v2",
    ansible="openstack.cloud.keypair",
)
FLAVOR = Kind(
    key="flavor",
    service="compute",
    path="flavors",
    envelope="flavor",
    attributes=(
        attribute("ram"),
        attribute("vcpus"),
        attribute("disk"),
        attribute("is_public", body="os-flavor-access:is_public", flags=("--public", "--private")),
        attribute("description", since="2.55"),
        NAME,
    ),
    command="flavor create",
    python="compute.create_flavor",
    terraform="openstack_compute_flavor_v2",
    ansible="openstack.cloud.compute_flavor",
)
MAINTENANCE = Kind(
    key="host",
    service="compute",
    path="os-services/disable-log-reason",
    envelope="",
    attributes=(
        attribute("disabled_reason", option="--disable-reason"),
        attribute("host", option=POSITIONAL),
        attribute("binary", option=POSITIONAL),
    ),
    command="compute service set --disable",
    python=None,
    method="PUT",
)
SERVER_GROUP = Kind(
    key="server_group",
    service="compute",
    path="os-server-groups",
    envelope="server_group",
    attributes=(
        attribute("policy", terraform="policies", since="2.64", convert={"terraform": lambda policy: [policy]}),
        attribute(
            "rules",
            option="--rule",
            block=True,
            since="2.64",
            convert={"option": lambda rules: Joined([*rules.items()]), "terraform": lambda rules: [rules]},
        ),
        NAME,
    ),
    command="server group create",
    python="compute.create_server_group",
    terraform="openstack_compute_servergroup_v2",
    ansible="openstack.cloud.server_group",
)
ATTACHMENT = Kind(
    key="attachment",
    service="compute",
    path="servers/{server}/os-volume_attachments",
    envelope="volumeAttachment",
    attributes=(
        attribute("delete_on_termination", flags=("--enable-delete-on-termination", ""), terraform=None, ansible=None,
                  since="2.79", usual=False),
        part_of_path("server", terraform="instance_id", ansible="server"),
        attribute("volume_id", body="volumeId", option=POSITIONAL, ansible="volume"),
    ),
    command="server add volume",
    python="compute.create_volume_attachment",
    terraform="openstack_compute_volume_attach_v2",
    ansible="openstack.cloud.server_volume",
)  # fmt: skip
INTERFACE = Kind(
    key="interface",
    service="compute",
    path="servers/{server}/os-interface",
    envelope="interfaceAttachment",
    attributes=(
        part_of_path("server", terraform="instance_id"),
        attribute("network_id", body="net_id", option=POSITIONAL, python="net_id"),
        attribute("fixed_ips", option=None, terraform=IMPLIED),
        attribute("fixed_ip", body=IMPLIED, option=IMPLIED, python=IMPLIED),
    ),
    command="server add network",
    python="compute.create_server_interface",
    terraform="openstack_compute_interface_attach_v2",
)
PORT_INTERFACE = replace(
    INTERFACE,
    attributes=(part_of_path("server", terraform="instance_id"), attribute("port_id", option=POSITIONAL)),
    command="server add port",
)
FIXED_INTERFACE = replace(
    INTERFACE,
    attributes=(
        part_of_path("server", terraform="instance_id"),
        attribute("fixed_ips", option=IMPLIED, terraform=IMPLIED),
        attribute("fixed_ip", body=IMPLIED, option="--fixed-ip-address", python=IMPLIED),
        attribute("network_id", body="net_id", option=POSITIONAL, python="net_id"),
    ),
    command="server add fixed ip",
)


def _path(part: str) -> Callable[[str], str]:
    return lambda server: f"/servers/{server}/{part}"


METADATA = Kind(
    key="metadata",
    service="compute",
    path="servers/{server}/metadata",
    envelope="",
    attributes=(
        part_of_path("server", ansible="server", convert={"python": _path("metadata")}),
        attribute("metadata", option="--property", python="json.metadata", ansible="meta", keeps_empty=True),
    ),
    command="server set",
    python="compute.put",
    ansible="openstack.cloud.server_metadata",
    method="PUT",
)
METADATA_REMOVED = Kind(
    key="metadata",
    service="compute",
    path=IMPLIED,
    envelope="",
    attributes=(
        part_of_path("server", ansible="server"),
        attribute("removed", body=IMPLIED, option="--property", python=IMPLIED, ansible="meta",
                  convert={"ansible": lambda keys: dict.fromkeys(keys, "")}),
    ),
    command="server unset",
    python=IMPLIED,
    ansible="openstack.cloud.server_metadata",
    extra={"ansible": {"state": "absent"}},
)  # fmt: skip
TAGS = Kind(
    key="tags",
    service="compute",
    path="servers/{server}/tags",
    envelope="",
    attributes=(
        part_of_path("server", convert={"python": _path("tags")}),
        attribute("tags", option="--tag", python="json.tags", since="2.26", keeps_empty=True),
    ),
    command="server set",
    python="compute.put",
    method="PUT",
    extra={"python": {"microversion": "2.26"}},
)
TAGS_REMOVED = Kind(
    key="tags",
    service="compute",
    path=IMPLIED,
    envelope="",
    attributes=(
        part_of_path("server"),
        attribute("removed", body=IMPLIED, option="--tag", python=IMPLIED, since="2.26"),
    ),
    command="server unset",
    python=IMPLIED,
)


def replacing(kind: Kind, removing: Kind, server: str, present: Collection[str], requested: Any) -> list[Call]:
    """Return the calls that replace the tags or metadata of a server by ``requested``; the command ``openstack`` and
    the module add and remove entries instead.
    """
    removed = [each for each in present if each not in requested]
    if removed and not requested:
        kind = replace(kind, command=IMPLIED, ansible=kind.ansible and IMPLIED)
    calls = [Call(kind, {"server": server, kind.key: requested})]
    return [*calls, Call(removing, {"server": server, "removed": removed})] if removed else calls


def _action(key: str, envelope: str, command: str, python: str, *attributes: Any, **more: Any) -> Kind:
    return Kind(
        key=key,
        service="compute",
        path="servers/{server}/action",
        envelope=envelope,
        attributes=(*attributes, part_of_path("server", ansible="name")),
        command=command,
        python=f"compute.{python}",
        **more,
    )


SERVER_IMAGE = _action(
    "image",
    "createImage",
    "server image create",
    "create_server_image",
    attribute("name"),
)
SERVER_BACKUP = _action(
    "backup",
    "createBackup",
    "server backup create",
    "backup_server",
    attribute("name"),
    attribute("backup_type", option="--type"),
    attribute("rotation", option="--rotate"),
)
RESIZE = _action("server", "resize", "server resize", "resize_server", attribute("flavor", body="flavorRef"))
REBUILD = _action(
    "server",
    "rebuild",
    "server rebuild",
    "rebuild_server",
    attribute("image", body="imageRef", ansible="image"),
    attribute("key_name", ansible=None, since="2.54"),
    attribute("no_key", body="key_name", option="--no-key-name", python="key_name", ansible=None,
              flags=("--no-key-name", ""), since="2.54",
              convert={"body": lambda _: None, "python": lambda _: None}),
    attribute("preserve_ephemeral", flags=("--preserve-ephemeral", ""), ansible=None, usual=False),
    ansible="openstack.cloud.server_action",
    extra={"ansible": {"action": "rebuild"}},
)  # fmt: skip
RESCUE = _action(
    "server",
    "rescue",
    "server rescue",
    "rescue_server",
    attribute("password", body="adminPass", python="admin_pass"),
    attribute("image", body="rescue_image_ref", python="image_ref"),
)
LOCK = _action(
    "server", "lock", "server lock", "lock_server",
    attribute("reason", body="locked_reason", python="locked_reason", ansible=None, since="2.73"),
    ansible="openstack.cloud.server_action", extra={"ansible": {"action": "lock"}},
)  # fmt: skip
PASSWORD = _action(
    "server", "changePassword", "server set", "change_server_password",
    attribute("password", body="adminPass", python="new_password"),
)  # fmt: skip
MIGRATE = _action("server", "migrate", "server migrate", "migrate_server", attribute("host", since="2.56"))
MIGRATE_ANYWHERE = replace(MIGRATE, null=True)
LIVE_MIGRATE = _action(
    "server", "os-migrateLive", "server migrate --live-migration", "live_migrate_server",
    attribute("host"),
    attribute("any_host", body="host", option=IMPLIED, python=IMPLIED, convert={"body": lambda _: None}),
    attribute("block_migration", option=IMPLIED, since="2.30"),
)  # fmt: skip
RESET_STATE = _action(
    "server", "os-resetState", "server set", "reset_server_state",
    attribute("state"),
    extra={"option": {POSITIONAL: Flag("--auto-approve")}},
)  # fmt: skip
UNSHELVE = _action(
    "server", "unshelve", "server unshelve", "unshelve_server",
    attribute("availability_zone", since="2.77"),
    attribute("any_zone", body="availability_zone", option="--no-availability-zone", python="availability_zone",
              flags=("--no-availability-zone", ""), since="2.91",
              convert={"body": lambda _: None, "python": lambda _: None}),
    attribute("host", since="2.91"),
)  # fmt: skip
UNSHELVE_AS_BEFORE = replace(
    UNSHELVE, null=True, ansible="openstack.cloud.server_action", extra={"ansible": {"action": "unshelve"}}
)


@dataclass(frozen=True, slots=True)
class Plain:
    """The names of an action without arguments: the client's command, the SDK's method, and the action of Ansible's
    module.
    """

    command: str
    python: str
    ansible: str = ""


PLAIN = {
    "power_off": Plain("stop", "stop_server", "stop"),
    "power_on": Plain("start", "start_server", "start"),
    "pause": Plain("pause", "pause_server", "pause"),
    "unpause": Plain("unpause", "unpause_server", "unpause"),
    "suspend": Plain("suspend", "suspend_server", "suspend"),
    "resume": Plain("resume", "resume_server", "resume"),
    "lock": Plain("lock", "lock_server", "lock"),
    "unlock": Plain("unlock", "unlock_server", "unlock"),
    "shelve": Plain("shelve", "shelve_server", "shelve"),
    "unshelve": Plain("unshelve", "unshelve_server", "unshelve"),
    "offload": Plain("shelve --offload", "shelve_offload_server", "shelve_offload"),
    "restore": Plain("restore", "restore_server"),
    "unrescue": Plain("unrescue", "unrescue_server"),
    "confirm_resize": Plain("resize confirm", "confirm_server_resize"),
    "revert_resize": Plain("resize revert", "revert_server_resize"),
    "trigger_crash_dump": Plain("dump create", "trigger_server_crash_dump"),
}
"""Key of a server action → its names. The registry of actions has its name in the API."""


def plain_action(key: str, api: str) -> Kind | None:
    """Return the kind of a server action without arguments; None if the forms have no names for it."""
    names = PLAIN.get(key)
    if names is None:
        return None
    return replace(
        _action("server", api, f"server {names.command}", names.python),
        null=True,
        ansible="openstack.cloud.server_action" if names.ansible else None,
        extra={"ansible": {"action": names.ansible}} if names.ansible else {},
    )


REBOOT = _action(
    "server", "reboot", "server reboot", "reboot_server",
    attribute("hard", body=IMPLIED, python=IMPLIED, ansible=IMPLIED, flags=("--hard", ""), usual=False),
    attribute("type", option=IMPLIED, python="reboot_type", ansible=IMPLIED),
    attribute("action", body=IMPLIED, option=IMPLIED, python=IMPLIED),
    ansible="openstack.cloud.server_action",
)  # fmt: skip
DELETE = Kind(
    key="server",
    service="compute",
    path="servers/{server}",
    envelope="",
    attributes=(part_of_path("server", ansible="name"),),
    command="server delete",
    python="compute.delete_server",
    ansible="openstack.cloud.server",
    method="DELETE",
    no_body=True,
    extra={"ansible": {"state": "absent"}},
)
