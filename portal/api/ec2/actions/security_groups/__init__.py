"""Security groups and their rules."""

from portal.api.ec2.actions.security_groups import describe, groups, rules

__all__ = ["describe", "groups", "rules"]
