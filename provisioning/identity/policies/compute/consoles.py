"""The consoles of servers (their screens and serial lines), and tunnels to their ports."""

from provisioning.identity.policies.base import ADMIN, MEMBER, rule

RULES = (
    rule("os_compute_api:os-remote-consoles", MEMBER, "Open a server's screen or serial line."),
    rule("os_compute_api:os-console-auth-tokens", ADMIN, "See where the console of a token is."),
    rule(
        "novella:servers:tunnel",
        MEMBER,
        "Reach a TCP port of a server through the cloud (`novella ssh`, `novella tunnel`).",
        "GET /ws/servers/{server_id}/tunnel",
    ),
)
