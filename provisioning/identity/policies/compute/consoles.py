"""The consoles of servers: their screens and serial lines."""

from provisioning.identity.policies.base import ADMIN, MEMBER, rule

RULES = (
    rule("os_compute_api:os-remote-consoles", MEMBER, "Open a server's screen or serial line."),
    rule("os_compute_api:os-console-auth-tokens", ADMIN, "See where the console of a token is."),
)
