"""The Compute API, and the pages with the same operations."""

from provisioning.identity.policies.compute import (
    catalog,
    consoles,
    hosts,
    lifecycle,
    migrations,
    parts,
    proxies,
    servers,
    usage,
)

RULES = (
    *servers.RULES,
    *lifecycle.RULES,
    *consoles.RULES,
    *migrations.RULES,
    *parts.RULES,
    *catalog.RULES,
    *hosts.RULES,
    *usage.RULES,
    *proxies.RULES,
)
