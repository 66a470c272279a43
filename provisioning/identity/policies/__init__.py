"""All policy rules, in the order of the documentation, with one module for each part.

Packages above identity add their own rules with ``add`` when Django loads their app, as server actions do.
"""

from collections.abc import Iterator

from provisioning.identity.policies import (
    authentication,
    compute,
    credentials,
    directory,
    ec2,
    endpoint_filters,
    faces,
    grants,
    image,
    launches,
    limits,
    metadefs,
    network,
    quotas,
    trusts,
    volume,
)
from provisioning.identity.policies.base import EVERY_SCOPE, MEMBER, READER, Rule

SHARED = (
    Rule(
        "admin_required",
        "role:admin and not token_scope:domain",
        "Operators of the cloud: the role admin on a project or on the system.",
        scopes=EVERY_SCOPE,
    ),
    Rule(
        "domain_admin",
        "role:admin and token_scope:domain and domain_id:%(domain_id)s",
        "Administrators of the object's domain: the role admin on that domain.",
        scopes=EVERY_SCOPE,
    ),
    Rule(
        "domain_manager",
        "role:manager and token_scope:domain and domain_id:%(domain_id)s",
        "Managers of the users, groups and projects of the object's domain: the role manager on that domain.",
        scopes=EVERY_SCOPE,
    ),
    Rule(
        "domain_managed_target_role",
        "'manager':%(target.role.name)s or 'member':%(target.role.name)s or 'reader':%(target.role.name)s",
        "Roles that a domain manager may assign and revoke: the name in Keystone.",
        scopes=EVERY_SCOPE,
    ),
    Rule(
        "domain_reader",
        "role:reader and token_scope:domain and domain_id:%(domain_id)s",
        "Readers of the object's domain: the role reader on that domain.",
        scopes=EVERY_SCOPE,
    ),
    *(
        Rule(name, check, f"{description}.", scopes=EVERY_SCOPE)
        for name, check, description in (
            ("context_is_admin", "rule:admin_required", "Operators of the cloud: the name in Nova, Glance and Neutron"),
            ("admin_api", "rule:context_is_admin", "The same operators: an older name in Nova"),
            ("admin_only", "rule:context_is_admin", "The same operators: an older name in Neutron"),
            (
                "admin_or_owner",
                "rule:context_is_admin or project_id:%(project_id)s",
                "Operators of the cloud, and members of the object's project",
            ),
            ("owner", "user_id:%(user_id)s", "The user that the object belongs to, as in Keystone"),
            ("project_reader_api", f"{READER} and project_id:%(project_id)s", "Readers of the object's project"),
            ("project_member_api", f"{MEMBER} and project_id:%(project_id)s", "Members of the object's project"),
            ("project_manager_api", "role:manager and project_id:%(project_id)s", "Managers of the object's project"),
            ("project_reader_or_admin", "rule:project_reader_api or rule:context_is_admin", "Either of the two"),
            ("project_member_or_admin", "rule:project_member_api or rule:context_is_admin", "Either of the two"),
            ("project_manager_or_admin", "rule:project_manager_api or rule:context_is_admin", "Either of the two"),
            ("xena_system_admin_or_project_reader", "rule:project_reader_or_admin", "Either of the two, in Cinder"),
            ("xena_system_admin_or_project_member", "rule:project_member_or_admin", "Either of the two, in Cinder"),
            ("metadef_default", "@", "Readers of metadata definitions: the name in older files of Glance"),
            ("metadef_admin", "rule:context_is_admin", "Writers of metadata definitions: the name in Glance"),
            ("service_role", "role:service", "Services of the cloud: the name in Keystone"),
            ("service_api", "role:service", "Services of the cloud: the name in Nova and Glance"),
            ("service_or_admin", "rule:service_api or rule:context_is_admin", "Either of the two"),
        )
    ),
)
"""Rules that other rules refer to; policy files of OpenStack also use their names."""
_PARTS: dict[str, tuple[Rule, ...]] = {
    "Shared rules": SHARED,
    "Compute": compute.RULES,
    "Quotas and limits": quotas.RULES,
    "Image": image.RULES,
    "Metadata definitions": metadefs.RULES,
    "Network": network.RULES,
    "Block Storage": volume.RULES,
    "EC2": ec2.RULES,
    "Leases, launch templates and snippets": launches.RULES,
    "Identity: tokens": authentication.RULES,
    "Identity: domains, projects, users and groups": directory.RULES,
    "Identity: roles, assignments and the catalog": grants.RULES,
    "Identity: endpoints of projects": endpoint_filters.RULES,
    "Identity: unified limits": limits.RULES,
    "Identity: credentials": credentials.RULES,
    "Identity: trusts": trusts.RULES,
    "Live pages and the operators' pages": faces.RULES,
}
"""Heading of the documentation → its rules, without the rules that ``add`` adds."""
_ADDED: dict[str, list[Rule]] = {}
RULES: dict[str, Rule] = {rule.name: rule for rules in _PARTS.values() for rule in rules}
"""All rules by name; complete once Django has loaded the apps."""
GUARDING: dict[str, Rule] = {rule.name: rule for rule in RULES.values() if rule not in SHARED}
"""The rules that operations check, without the shared rules."""


def add(part: str, rule: Rule) -> None:
    """Add a rule under a heading of the documentation.  Raises ValueError if the name exists."""
    if RULES.setdefault(rule.name, rule) is not rule:
        raise ValueError(f"There are two policy rules {rule.name!r}.")
    GUARDING[rule.name] = rule
    _ADDED.setdefault(part, []).append(rule)


def parts() -> Iterator[tuple[str, list[Rule]]]:
    """Yield the headings of the documentation with their rules; added rules come last, by name."""
    for title, rules in _PARTS.items():
        yield title, [*rules, *sorted(_ADDED.get(title, ()), key=lambda rule: rule.name)]
