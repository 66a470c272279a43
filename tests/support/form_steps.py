"""The forms of the dashboard and of the admin, with values to submit each of them once, in an order that works."""

from __future__ import annotations

from typing import Any

from provisioning.batches.kinds import KINDS
from tests.support.forms import FIRST, Step

PASSWORD = "a-long-enough-Password-1"


def d(name: str, values: Any = None, of: str = "", **options: Any) -> Step:
    """Return the step of a form of the dashboard."""
    return Step(f"dashboard:{name}", values or {}, of, **options)


def act(button: str) -> Step:
    """Return the step of an action on the server."""
    return d("instance_action", of="server", kwargs={"button": button}, waits=True)


def of_user(action: str) -> Step:
    return d("user_action", of="user", kwargs={"action": action})


NETWORKING = [
    d("key_pair_create", {"name": "desk", "how": "make"}, keep="pair", kind="key-pairs"),
    d("network_create", {"name": "web", "cidr": "10.177.0.0/24"}, keep="net"),
    d("network_edit", {"name": "web-2"}, "net"),
    d("subnet_create", {"name": "more", "cidr": "10.178.0.0/24"}, "net", keep="subnet", kind="subnets"),
    d("subnet_edit", {"name": "even-more"}, "subnet"),
    d("port_create", {"name": "p1"}, "net", keep="port", kind="ports"),
    d("port_edit", {"name": "p2"}, "port"),
    d("port_groups", {"security_groups": FIRST}, "port"),
    d("router_create", {"name": "way-out"}, keep="router"),
    d("router_edit", {"name": "way-out-2"}, "router"),
    d("router_gateway", {"gateway": FIRST}, "router"),
    d("router_interface_add", {"subnet": lambda visitor: visitor.ids.get("subnet", "")}, "router"),
    d("router_route_add", {"destination": "10.99.0.0/24", "nexthop": "10.178.0.9"}, "router"),
    d("router_route_remove", of="router"),
    d("router_interface_remove", of="router"),
    d("router_gateway_clear", of="router"),
    d("router_delete", of="router"),
    d("security_group_create", {"name": "web-servers"}, keep="group"),
    d("security_group_edit", {"name": "web-servers-2"}, "group"),
    d("security_group_rule_add", {"template": "ssh"}, "group", keep="rule", kind="security-group-rules"),
    d("security_group_rule_delete", of="rule"),
    d("security_group_delete", of="group"),
]
LAUNCH = {"at": "/instances/launch/", "button": "[data-testid=launch-submit]", "keep": "server", "kind": "instances"}
SERVERS = [
    d("launch", {"name": "web-1", "password": False}, **LAUNCH),
    d("instance_lease", {"lease_days": "7"}, "server"),
    d("instance_lease_extend", of="server", at="/instances/{server}/"),
    d("snippet_create", {"name": "hello", "text": "#cloud-config\nruncmd: [[ls]]"}, keep="snippet", kind="snippets"),
    d("snippet_edit", {"name": "hello-2"}, "snippet"),
    d("snippet_delete", of="snippet"),
    d("server_group_create", {"name": "apart"}, keep="server_group", kind="server-groups"),
    d("server_group_delete", of="server_group"),
    d(
        "launch_template_create",
        {"title": "Lab"},
        at="/launch-templates/create/?server={server}",
        keep="template",
        kind="launch-templates",
    ),
    d("launch_template_edit", {"name": "Lab 2"}, "template"),
    d("launch_template_delete", of="template"),
    act("reset"),
    d("instance_open_console", of="server", at="/instances/{server}/", waits=True),
    d("instance_rename", {"name": "web-2"}, "server"),
    d("instance_tags", {"tags": "red"}, "server"),
    d("instance_metadata", {"metadata": "role=web"}, "server"),
    d("floating_ip_allocate", {"network": FIRST}, keep="floating"),
    d("port_floating_ip", {"floating": FIRST}, "port"),
    d("floating_ip_disassociate", of="floating"),
    d("floating_ip_associate", {"target": FIRST}, "floating"),
    d("floating_ip_disassociate", of="floating"),
    d("forwarding_add", {"protocol": "tcp", "outside": "80", "inside": "80", "target": FIRST}, "floating"),
    d("forwarding_edit", {"outside": "81", "inside": "81"}, "floating"),
    d("forwarding_delete", of="floating"),
    d("floating_ip_release", of="floating"),
    d("port_delete", of="port"),
    d("subnet_delete", of="subnet"),
    d("network_create", {"name": "spare", "cidr": "10.179.0.0/24", "router": ""}, keep="spare"),
    d("network_delete", of="spare"),
]
VOLUMES = [
    d("volume_create", {"name": "data", "source": "empty", "size": "1"}, keep="volume"),
    d("volume_edit", {"name": "data-2"}, "volume"),
    d("snapshot_create", {"name": "s1"}, "volume", keep="snapshot", kind="volume-snapshots", waits=True),
    d("snapshot_edit", {"name": "s2"}, "snapshot", waits=True),
    d("snapshot_revert", of="snapshot", waits=True),
    d("snapshot_delete", of="snapshot", waits=True),
    d("backup_create", {"name": "b1"}, "volume", keep="backup", kind="volume-backups", waits=True),
    d("backup_restore", {"target": ""}, "backup", waits=True),
    d("backup_delete", of="backup", waits=True),
    d("volume_extend", {"size": "2"}, "volume", waits=True),
    d("volume_attach", {"server": FIRST}, "volume", waits=True),
    d("volume_detach", of="volume", waits=True),
    d("server_attach", {"volume": FIRST}, "server", waits=True),
    d("volume_create", {"name": "source", "source": "empty", "size": "1"}, keep="source"),
    d("volume_upload", {"name": "from-volume", "disk_format": "raw"}, "source", waits=True),
    d("transfer_create", {"name": "gift"}, "source", waits=True),
    d("transfer_withdraw", of="source"),
    d("volume_create", {"name": "spare", "source": "empty", "size": "1"}, keep="spare_volume"),
    d("volume_delete", of="spare_volume", waits=True),
]
ACTIONS = [
    *map(act, ("pause", "unpause", "suspend", "resume", "reboot", "stop", "start")),
    d("instance_lock", {"reason": "maintenance"}, "server", waits=True),
    *map(act, ("unlock", "shelve")),
    d("instance_unshelve", of="server", waits=True),
    d(
        "bulk",
        at="/bulk/instances/delete/?id={server}",
        kwargs={"resources": "instances", "bulk_action": "delete"},
        waits=True,
    ),
]
OWN = [
    d(
        "application_credential_create",
        {"name": "nightly", "roles": FIRST, "expiry": "30"},
        keep="credential",
        kind="application-credentials",
    ),
    d("application_credential_delete", of="credential"),
    d("ec2_credential_create"),
    d("settings", {"email": "demo@example.org"}),
    d("key_pair_delete", of="pair"),
    d("sign_out", at="/", button="form[action='/auth/logout/'] [type=submit]"),
]
USER = [*NETWORKING, *SERVERS, *VOLUMES, *ACTIONS, *OWN]
OPERATOR = [
    d("flavor_create", {"name": "m1.odd", "memory_mb": "256", "root_gb": "1"}, keep="flavor"),
    d("flavor_delete", of="flavor"),
    d("project_create", {"name": "blue"}, keep="project"),
    d("project_edit", {"description": "The blue one"}, "project"),
    d("project_create", {"name": "wired"}, keep="wired"),
    d("project_network", of="wired"),
    d("project_quotas", {"how-cores": "limit", "limit-cores": "5"}, "project"),
    d("project_quotas_reset", of="project"),
    d("user_create", {"name": "eve", "how": "type", "password": PASSWORD}, keep="user"),
    d("user_edit", {"email": "eve@example.org"}, "user"),
    d("user_password", {"how": "type", "password": f"{PASSWORD}2"}, "user"),
    d("user_role_give", {"project": lambda visitor: visitor.ids.get("project", ""), "roles": FIRST}, "user"),
    d("member_roles", {"roles": FIRST}, "project"),
    d("member_remove", of="project"),
    d("member_add", {"who": FIRST, "roles": FIRST}, "project"),
    d("member_list", {"people": "frank, frank@example.org"}, "project"),
    d("group_create", {"name": "staff"}, keep="group"),
    d("group_edit", {"description": "All of them"}, "group"),
    d("group_user_add", {"who": FIRST}, "group"),
    d("group_user_remove", of="group"),
    d("group_role_give", {"project": lambda visitor: visitor.ids.get("project", ""), "roles": FIRST}, "group"),
    d("group_delete", of="group"),
    d("role_create", {"name": "auditor"}, keep="role"),
    d("role_edit", {"description": "Reads"}, "role"),
    d("role_implications", {"roles": "reader"}, "role"),
    d("role_delete", of="role"),
    d("domain_create", {"name": "green"}, keep="domain"),
    d("domain_edit", {"description": "Another one"}, "domain"),
    d("domain_member_add", {"who": FIRST, "roles": FIRST}, "domain"),
    d("domain_member_roles", {"roles": FIRST}, "domain"),
    d("domain_member_remove", of="domain"),
    d("domain_disable", of="domain"),
    d("domain_enable", of="domain"),
    d("domain_disable", of="domain"),
    d("domain_delete", of="domain"),
    d("system_member_add", {"who": FIRST, "roles": FIRST}),
    d("system_member_roles", {"roles": FIRST}),
    d("system_member_remove"),
    d("quota_defaults", {"how-cores": "limit", "limit-cores": "40"}),
    *map(of_user, ("disable", "enable", "sign-out", "delete")),
    d("project_disable", of="project"),
    d("project_enable", of="project"),
    d("project_disable", of="project"),
    d("project_delete", of="project"),
    d("host_maintenance", {"reason": "new fan"}),
    d("host_maintenance_end"),
    d("host_force_down"),
    d("host_force_down_end"),
    d("switch_project", at="/projects/", button="[formaction^='/auth/project/']"),
]
ADMIN: dict[str, dict[str, Any]] = {
    "compute_aggregate": {"name": "fast"},
    "compute_flavor": {"name": "m1.adm", "flavorid": "adm", "vcpus": "1", "memory_mb": "256", "root_gb": "1"},
    "identity_service": {"name": "adm-service", "type": "adm"},
    "identity_region": {"id": "adm-region"},
    "identity_endpoint": {"service": FIRST, "interface": FIRST, "url": "http://example.org/"},
    "volumes_qosspec": {"name": "adm-qos"},
    "volumes_grouptype": {"name": "adm-gt"},
    "volumes_volumetype": {"name": "adm-type"},
    "volumes_defaulttype": {"project_id": FIRST, "volume_type": FIRST},
    "quotas_quotalimit": {"resource": FIRST, "limit": "5"},
}
"""App and model of the admin → what is typed to add one."""

ELSEWHERE = {
    **{
        f"dashboard:bulk:{kind.name}:{action.name}": "tests/batches/test_batches.py: it is about many resources"
        for kind in KINDS.values()
        for action in kind.actions
        if (kind.name, action.name) != ("instances", "delete")
    },
    "dashboard:host_drain_start": "tests/dashboard/test_cloud.py: it needs another host",
    "dashboard:instance_live_migrate": "tests/dashboard/test_migrations.py: it needs another host",
    "dashboard:instance_migration_abort": "tests/dashboard/test_migrations.py: it needs a move that is running",
    "dashboard:instance_migration_complete": "tests/dashboard/test_migrations.py: it needs a move that is running",
    "dashboard:instance_migrate": "tests/dashboard/test_migrations.py: it needs another host",
    "dashboard:host_drain_change": "tests/dashboard/test_cloud.py: it needs a drain",
    "dashboard:host_evacuation": "tests/dashboard/test_cloud.py: it needs a host that is down, and another one",
    "dashboard:star": "tests/dashboard/test_search.py: it needs a page of a resource",
    "dashboard:batch_undo": "tests/dashboard/test_bulk.py: it needs a batch that has ended",
    "dashboard:batch_dismiss": "tests/dashboard/test_bulk.py: it needs a refusal",
    **{
        f"dashboard:styleguide{each}": "tests/dashboard/test_styleguide.py: only with DEBUG"
        for each in ("", "_question", "_danger", "_form")
    },
    "dashboard:sign_in": "tests/e2e/test_forms.py: by its fixture",
    "dashboard:image_upload": "tests/e2e/test_forms.py: with a file",
    "dashboard:change_expired": "tests/identity/auth/test_passwords.py: it needs a password that has expired",
    "dashboard:switch_domain": "tests/dashboard/test_domain_and_system.py: it needs a role on a domain itself",
    "dashboard:switch_to_system": "tests/dashboard/test_domain_and_system.py: it needs a role on the system",
    **{
        f"dashboard:instance_action:{button}": "tests/dashboard/test_instances.py: it needs a state of its own"
        for button in ("confirm", "revert", "unrescue", "restore", "delete")
    },
    "dashboard:instance_action:crash-dump": "tests/dashboard/test_instance_actions.py: a guest has to write a dump",
    "dashboard:instance_action:offload": "tests/dashboard/test_instance_actions.py: for operators only",
    **{
        f"dashboard:instance_{action}": "tests/dashboard/test_instance_actions.py: it needs a state or takes minutes"
        for action in (
            *("attach_interface", "backup", "change_password", "detach_interface", "rebuild", "rescue"),
            *("reset_state", "resize", "snapshot"),
        )
    },
    **{
        f"dashboard:instance_{action}": "tests/dashboard/test_guest_disks.py: it needs an agent in the guest"
        for action in ("mount_volume", "extend_file_system")
    },
    "dashboard:instance_action:trim": "tests/host/test_trim.py: it needs an agent in the guest",
    "dashboard:launch_quote": "tests/dashboard/test_launch.py: a part of the wizard",
    "dashboard:launch_keys": "tests/dashboard/test_launch.py: a part of the wizard",
    "dashboard:launch_networks": "tests/dashboard/test_launch_made_here.py: a part of the wizard",
    "dashboard:launch_groups": "tests/dashboard/test_launch_made_here.py: a part of the wizard",
    "dashboard:launch_link": "tests/dashboard/test_launch_templates.py: its address has no id",
    "dashboard:launch_link_quote": "tests/dashboard/test_launch_templates.py: a part of the page of a link",
    "dashboard:launch_template_version_create": "tests/dashboard/test_launch_templates.py: the wizard sends it",
    "dashboard:launch_template_version_default": "tests/dashboard/test_launch_templates.py: it needs a second version",
    "dashboard:launch_template_version_delete": "tests/dashboard/test_launch_templates.py: it needs a second version",
    "dashboard:try_it_token": "tests/e2e/test_browser_try_it.py: a script sends it",
    "dashboard:network_own": "tests/dashboard/test_networks.py: it needs a project without networks",
    "dashboard:settings_password": "tests/dashboard/test_settings.py: it would end the sessions of the cloud",
    "dashboard:settings_sessions_end": "tests/dashboard/test_settings.py: it would end the sessions of the cloud",
    "dashboard:settings_session_end": "tests/dashboard/test_settings.py: it needs a second session",
    "dashboard:pool_disk_manage": "tests/dashboard/test_unmanaged.py: it needs an unmanaged disk",
    "dashboard:pool_snapshot_manage": "tests/dashboard/test_unmanaged.py: it needs an unmanaged snapshot",
    "dashboard:volume_unmanage": "tests/dashboard/test_unmanaged.py: for operators only",
    "dashboard:snapshot_unmanage": "tests/dashboard/test_unmanaged.py: for operators only",
    "dashboard:volume_retype": "tests/dashboard/test_volumes.py: it needs a second type",
    "dashboard:transfer_accept": "tests/dashboard/test_volumes.py: the key is shown once",
    "dashboard:catalogue_add": "tests/dashboard/test_catalogue.py: it needs an index",
    "dashboard:image_hardware": "tests/dashboard/test_images.py: it needs an image of the user's own",
    "dashboard:image_share": "tests/dashboard/test_image_sharing.py: it needs two projects",
    "dashboard:image_unshare": "tests/dashboard/test_image_sharing.py: it needs two projects",
    "dashboard:image_accept": "tests/dashboard/test_image_sharing.py: it needs two projects",
    "dashboard:image_decline": "tests/dashboard/test_image_sharing.py: it needs two projects",
    "dashboard:image_delete": "tests/dashboard/test_images.py: it needs an image of the user's own",
    "dashboard:ec2_credential_delete": "tests/dashboard/test_ec2_credentials.py: its id is on another page",
    "dashboard:user_credential_delete": "tests/dashboard/test_users.py: it needs a credential of another user",
}
"""Forms that no step submits → the test file that submits them, and why it is another one."""
