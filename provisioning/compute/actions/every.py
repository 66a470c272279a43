"""Imports all server actions, which registers them and fills the tables derived from the registry."""

from provisioning.compute.actions import (  # noqa: F401 - each registers its actions
    delete,
    evacuate,
    guest_disks,
    interfaces,
    live_migrate,
    lock,
    migrate,
    power,
    rebuild,
    rescue,
    reset_state,
    resize,
    security_groups,
    shelve,
    snapshot,
    soft_delete,
    swap_volume,
    trim,
    unshelve,
    volumes,
)
