"""Security groups and their rules."""

from importlib import import_module

for name in ("describe", "groups", "rules", "rule_changes"):
    import_module(f"{__name__}.{name}")
