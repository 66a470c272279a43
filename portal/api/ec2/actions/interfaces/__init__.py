"""Network interfaces: ports that are attached to instances or can be."""

from importlib import import_module

for name in ("describe", "create", "attachments", "attributes", "private_addresses"):
    import_module(f"{__name__}.{name}")
