"""The Network API."""

from provisioning.identity.policies.base import ADMIN, READER, rule

RULES = (
    rule("network:networks:list", READER, "List networks.", "GET /v2.0/networks"),
    rule("network:networks:show", READER, "Show a network.", "GET /v2.0/networks/{network_id}"),
    rule("network:networks:show:provider", ADMIN, "See how a network is made.", "GET /v2.0/networks/{network_id}"),
    rule("network:subnets:list", READER, "List subnets.", "GET /v2.0/subnets"),
    rule("network:subnets:show", READER, "Show a subnet.", "GET /v2.0/subnets/{subnet_id}"),
    rule("network:ports:list", READER, "List ports.", "GET /v2.0/ports"),
    rule("network:ports:show", READER, "Show a port.", "GET /v2.0/ports/{port_id}"),
    rule("network:ports:show:binding", ADMIN, "See on which host a port is.", "GET /v2.0/ports/{port_id}"),
    rule("network:security_groups:list", READER, "List security groups.", "GET /v2.0/security-groups"),
    rule(
        "network:security_groups:show",
        READER,
        "Show a security group.",
        "GET /v2.0/security-groups/{security_group_id}",
    ),
    rule("network:security_group_rules:list", READER, "List rules.", "GET /v2.0/security-group-rules"),
    rule("network:security_group_rules:show", READER, "Show a rule.", "GET /v2.0/security-group-rules/{rule_id}"),
    rule(
        "network:list:all_projects",
        ADMIN,
        "See the objects of every project.",
        *(f"GET /v2.0/{kind}" for kind in ("networks", "subnets", "ports", "security-groups", "security-group-rules")),
    ),
    rule("network:extensions:list", READER, "List the API's extensions.", "GET /v2.0/extensions"),
    rule("network:extensions:show", READER, "Show an extension.", "GET /v2.0/extensions/{alias}"),
)
