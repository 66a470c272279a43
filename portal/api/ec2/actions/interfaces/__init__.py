"""Network interfaces: ports that guests have or can be given."""

from importlib import import_module

for name in ("describe", "create", "attachments", "attributes", "private_addresses"):
    import_module(f"{__name__}.{name}")
