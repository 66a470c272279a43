"""Security groups and what they let in and out."""

from importlib import import_module

for name in ("describe", "groups", "rules", "rule_changes"):
    import_module(f"{__name__}.{name}")
