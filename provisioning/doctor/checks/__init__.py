"""Every check of the doctor; importing this package registers them, in the order in which they are made."""

from importlib import import_module

for _subject in (
    "tasks", "launches", "commands", "reports", "actions", "faults", "allocations", "addresses", "networks",
    "deliveries", "quota", "images", "guests", "newer_guests", "guest_interfaces", "leftovers", "hosts",
    "certificates", "keys", "volumes", "older_volumes", "guest_volumes", "backups", "queue",
):  # fmt: skip
    import_module(f"{__name__}.{_subject}")
