"""The Network API: one rule for a list and its records, and one for each attribute that only operators see."""

from provisioning.identity.policies.base import ADMIN, READER, Rule, rule


def _resource(name: str, plural: str, what: str) -> Rule:
    return rule(f"get_{name}", READER, f"List and show {what}.", f"GET /v2.0/{plural}", f"GET /v2.0/{plural}/{{id}}")


def _attribute(name: str, attribute: str, plural: str, sentence: str) -> Rule:
    paths = (f"GET /v2.0/{plural}", f"GET /v2.0/{plural}/{{id}}")
    return rule(f"get_{name}:{attribute}", ADMIN, sentence, *paths)


RULES = (
    _resource("network", "networks", "networks"),
    _attribute("network", "provider:network_type", "networks", "See a network's type."),
    _attribute("network", "provider:physical_network", "networks", "See which physical network carries a network."),
    _attribute("network", "provider:segmentation_id", "networks", "See a network's segment on the physical network."),
    _resource("subnet", "subnets", "subnets"),
    _resource("port", "ports", "ports"),
    _attribute("port", "binding:host_id", "ports", "See on which host a port is, and of which kind its card is."),
    _attribute("port", "binding:vif_type", "ports", "See how a port is connected on its host."),
    _attribute("port", "binding:vif_details", "ports", "See details of a port's connection."),
    _attribute("port", "binding:profile", "ports", "See what a port tells its host."),
    _resource("security_group", "security-groups", "security groups"),
    _resource("security_group_rule", "security-group-rules", "the rules of security groups"),
    rule(
        "novella:get_networks:all_projects",
        ADMIN,
        "See the objects of every project.",
        *(f"GET /v2.0/{kind}" for kind in ("networks", "subnets", "ports", "security-groups", "security-group-rules")),
    ),
    rule(
        "novella:get_extensions",
        READER,
        "Read the API's extensions.",
        "GET /v2.0/extensions",
        "GET /v2.0/extensions/{alias}",
    ),
)
