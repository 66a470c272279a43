"""The Compute API, and the pages and buttons that do the same."""

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
