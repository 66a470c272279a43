"""What changes in compute: every write goes through one of these."""

from provisioning.compute.services.checks import LaunchQuote
from provisioning.compute.services.console import console_output
from provisioning.compute.services.delete import delete
from provisioning.compute.services.diagnostics import diagnostics
from provisioning.compute.services.flavor_access import add_flavor_access, remove_flavor_access
from provisioning.compute.services.flavor_specs import delete_extra_spec, merge_extra_specs, no_such_spec
from provisioning.compute.services.flavors import create_flavor, delete_flavor, update_flavor
from provisioning.compute.services.hosts import disable_host, enable_host, update_host
from provisioning.compute.services.instances import update
from provisioning.compute.services.interfaces import add_fixed_ip, attach_interface, detach_interface, remove_fixed_ip
from provisioning.compute.services.key_pairs import create_key_pair, delete_key_pair
from provisioning.compute.services.launch import check_launch, launch
from provisioning.compute.services.locks import lock, unlock
from provisioning.compute.services.metadata import delete_metadata, merge_metadata, set_metadata
from provisioning.compute.services.moves import end_live_migration, evacuate, migrate, migrate_live
from provisioning.compute.services.passwords import clear_password, generate_password
from provisioning.compute.services.power import change_password, reboot, start, stop, switch, trigger_crash_dump
from provisioning.compute.services.rebuild import rebuild
from provisioning.compute.services.remote_consoles import RemoteConsole, create_console
from provisioning.compute.services.rescue import rescue, unrescue
from provisioning.compute.services.reset import reset_state
from provisioning.compute.services.resize import confirm_resize, resize, revert_resize
from provisioning.compute.services.security_groups import add_security_group, remove_security_group
from provisioning.compute.services.shelve import offload, shelve
from provisioning.compute.services.snapshots import create_backup, create_image
from provisioning.compute.services.soft_delete import restore
from provisioning.compute.services.tags import add_tag, delete_tag, delete_tags, set_tags
from provisioning.compute.services.unshelve import Destination, unshelve

__all__ = [
    "Destination",
    "LaunchQuote",
    "RemoteConsole",
    "add_fixed_ip",
    "add_flavor_access",
    "add_security_group",
    "add_tag",
    "attach_interface",
    "change_password",
    "check_launch",
    "clear_password",
    "confirm_resize",
    "console_output",
    "create_backup",
    "create_console",
    "create_flavor",
    "create_image",
    "create_key_pair",
    "delete",
    "delete_extra_spec",
    "delete_flavor",
    "delete_key_pair",
    "delete_metadata",
    "delete_tag",
    "delete_tags",
    "detach_interface",
    "diagnostics",
    "disable_host",
    "enable_host",
    "end_live_migration",
    "evacuate",
    "generate_password",
    "launch",
    "lock",
    "merge_extra_specs",
    "merge_metadata",
    "migrate",
    "migrate_live",
    "no_such_spec",
    "offload",
    "reboot",
    "rebuild",
    "remove_fixed_ip",
    "remove_flavor_access",
    "remove_security_group",
    "rescue",
    "reset_state",
    "resize",
    "restore",
    "revert_resize",
    "set_metadata",
    "set_tags",
    "shelve",
    "start",
    "stop",
    "switch",
    "trigger_crash_dump",
    "unlock",
    "unrescue",
    "unshelve",
    "update",
    "update_flavor",
    "update_host",
]
