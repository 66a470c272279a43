"""The Network API: one rule for a list and its records, and one for each attribute that only operators see."""

from provisioning.identity.policies.base import ADMIN, READER, Rule, rule


def _attribute(name: str, attribute: str, plural: str, sentence: str) -> Rule:
    paths = (f"GET /v2.0/{plural}", f"GET /v2.0/{plural}/{{{name}_id}}")
    return rule(f"get_{name}:{attribute}", ADMIN, sentence, *paths)


RULES = (
    rule("get_network", READER, "List and show networks."),
    _attribute("network", "provider:network_type", "networks", "See a network's type."),
    _attribute("network", "provider:physical_network", "networks", "See which physical network carries a network."),
    _attribute("network", "provider:segmentation_id", "networks", "See a network's segment on the physical network."),
    rule("get_subnet", READER, "List and show subnets."),
    rule("get_port", READER, "List and show ports."),
    _attribute("port", "binding:host_id", "ports", "See on which host a port is, and of which kind its interface is."),
    _attribute("port", "binding:vif_type", "ports", "See how a port is connected on its host."),
    _attribute("port", "binding:vif_details", "ports", "See details of a port's connection."),
    _attribute("port", "binding:profile", "ports", "See what a port tells its host."),
    rule("get_security_group", READER, "List and show security groups."),
    rule("get_security_group_rule", READER, "List and show the rules of security groups."),
    rule(
        "novella:get_networks:all_projects",
        ADMIN,
        "See the objects of every project.",
        *(f"GET /v2.0/{kind}" for kind in ("networks", "subnets", "ports", "security-groups", "security-group-rules")),
    ),
    rule("novella:get_extensions", READER, "Read the API's extensions."),
)
