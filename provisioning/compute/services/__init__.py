"""What changes in compute: every write goes through one of these."""

from provisioning.compute.services.checks import LaunchQuote
from provisioning.compute.services.console import console_output
from provisioning.compute.services.delete import delete
from provisioning.compute.services.flavors import create_flavor, delete_flavor, update_flavor
from provisioning.compute.services.hosts import disable_host, enable_host, update_host
from provisioning.compute.services.instances import delete_metadata, merge_metadata, set_metadata, update
from provisioning.compute.services.key_pairs import create_key_pair, delete_key_pair
from provisioning.compute.services.launch import check_launch, launch
from provisioning.compute.services.power import reboot, start, stop

__all__ = [
    "LaunchQuote",
    "check_launch",
    "console_output",
    "create_flavor",
    "create_key_pair",
    "delete",
    "delete_flavor",
    "delete_key_pair",
    "delete_metadata",
    "disable_host",
    "enable_host",
    "launch",
    "merge_metadata",
    "reboot",
    "set_metadata",
    "start",
    "stop",
    "update",
    "update_flavor",
    "update_host",
]
