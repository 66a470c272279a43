"""Every check of the doctor; importing this package registers them, in the order in which they run."""

from provisioning.doctor.checks import (  # isort: skip - they run in this order
    tasks,
    launches,
    commands,
    reports,
    actions,
    faults,
    allocations,
    addresses,
    networks,
    deliveries,
    quota,
    images,
    guests,
    newer_guests,
    guest_interfaces,
    leftovers,
    hosts,
    certificates,
    keys,
    volumes,
    older_volumes,
    guest_volumes,
    backups,
    queue,
)

MODULES = (
    tasks, launches, commands, reports, actions, faults, allocations, addresses, networks, deliveries, quota, images,
    guests, newer_guests, guest_interfaces, leftovers, hosts, certificates, keys, volumes, older_volumes, guest_volumes,
    backups, queue,
)  # fmt: skip
