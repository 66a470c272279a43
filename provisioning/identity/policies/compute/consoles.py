"""The consoles of servers: their screens and serial lines."""

from provisioning.identity.policies.base import ADMIN, MEMBER, rule

_ACTIONS = ("os-getVNCConsole", "os-getSPICEConsole", "os-getRDPConsole", "os-getSerialConsole")

RULES = (
    rule(
        "os_compute_api:os-remote-consoles",
        MEMBER,
        "Open a server's screen or serial line.",
        "POST /servers/{server_id}/remote-consoles",
        *(f"POST /servers/{{server_id}}/action ({action})" for action in _ACTIONS),
    ),
    rule(
        "os_compute_api:os-console-auth-tokens",
        ADMIN,
        "See where the console of a token is.",
        "GET /os-console-auth-tokens/{console_token}",
    ),
)
