"""Credentials, EC2 credentials, application credentials and access rules."""

from provisioning.identity.policies.base import Rule

RULES: tuple[Rule, ...] = ()
