"""The graphical and serial consoles of servers, and tunnels to their ports."""

from provisioning.identity.policies.base import ADMIN, MEMBER, rule

RULES = (
    rule("os_compute_api:os-remote-consoles", MEMBER, "Open a server's graphical or serial console."),
    rule(
        "novella:servers:replace_console",
        MEMBER,
        "Replace the serial console that another user has open.",
        "POST /instances/{server_id}/console/{protocol}/",
    ),
    rule("os_compute_api:os-console-auth-tokens", ADMIN, "Show the address of a token's console."),
    rule(
        "novella:servers:tunnel",
        MEMBER,
        "Connect to a TCP port of a server through the cloud (`novella ssh`, `novella tunnel`).",
        "GET /ws/servers/{server_id}/tunnel",
    ),
)
