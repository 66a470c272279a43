"""Every server action; importing this module registers them, and with them all that derives from the registry."""

from provisioning.compute.actions import (  # noqa: F401 - each registers its actions
    delete,
    interfaces,
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
