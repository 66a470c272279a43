"""Offers of a search: actions on instances, resources, forms and pages."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from django.urls import NoReverseMatch, reverse

from portal.dashboard.frame import navigation
from portal.dashboard.frame.things import ICONS, PAGES
from portal.dashboard.instances.lists.rows import can
from provisioning.common.context import RequestContext
from provisioning.compute.actions.base import ServerAction
from provisioning.compute.actions.registry import with_buttons
from provisioning.identity import policy
from provisioning.identity.selectors.lookups import names_of_projects
from provisioning.search.find import Hit, search

LEAST_VERB = 3
"""Minimum number of letters that are read as the beginning of an action: ``sto web``."""

LISTS = {
    "image": "images",
    "volume_snapshot": "volume_snapshots",
    "volume_backup": "volume_backups",
    "key_pair": "key_pairs",
    "server_group": "server_groups",
    "flavor": "flavors",
}
"""Kind without a page → the URL name of its list."""
RECORDS = {
    "network": "network_network",
    "subnet": "network_subnet",
    "router": "network_router",
    "floating_ip": "network_floatingip",
    "security_group": "network_securitygroup",
    "port": "network_port",
    "volume_snapshot": "volumes_snapshot",
    "volume_backup": "volumes_backup",
    "server_group": "compute_servergroup",
}
"""Kind whose pages exist only in its project → its operators' page."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A result: its group, and the page to open."""

    group: str
    title: str
    address: str
    icon: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """A form that creates something, found by all of its words."""

    title: str
    url_name: str
    rule: str
    icon: str
    keywords: str = ""


NEW = "new create add"
FORMS = (
    Form("Launch an instance", "launch", "os_compute_api:servers:create", "plus-lg", f"{NEW} server vm"),
    Form("Create a volume", "volume_create", "volume:create", "device-hdd", f"{NEW} disk"),
    Form("Create a network", "network_create", "create_network", "hdd-network", NEW),
    Form("Create a router", "router_create", "create_router", "router", NEW),
    Form("Create a security group", "security_group_create", "create_security_group", "shield", f"{NEW} firewall"),
    Form("Allocate a floating IP", "floating_ip_allocate", "create_floatingip", "signpost", f"{NEW} address"),
    Form("Upload an image", "image_upload", "add_image", "disc", f"{NEW} import"),
    Form("Create a key pair", "key_pair_create", "os_compute_api:os-keypairs:create", "key", f"{NEW} ssh import"),
    Form(
        "Create an application credential",
        "application_credential_create",
        "identity:create_application_credential",
        "robot",
        NEW,
    ),
    Form("Create a flavor", "flavor_create", "os_compute_api:os-flavor-manage:create", "sliders", f"{NEW} size"),
    Form("Create a project", "project_create", "identity:create_project", "collection", NEW),
    Form("Create a user", "user_create", "identity:create_user", "person", NEW),
    Form("Create a group", "group_create", "identity:create_group", "people", NEW),
)
OTHER_PAGES = (
    ("Quotas of this project", "own_project", "speedometer2", "quota limits usage", ""),
    ("Default quotas", "quota_defaults", "speedometer2", "quota limits", "os_compute_api:os-quota-class-sets:update"),
    ("Settings", "settings", "person-gear", "password email profile", ""),
    ("Sessions and tokens", "settings_sessions", "window-stack", "sign out", ""),
)
"""Pages that are not in the side bar, or under another name: label, URL name, icon, additional words, policy rule."""

OF_PROJECT = frozenset({"own_project"})
"""Pages that require a token for a project."""


def offers_for(context: RequestContext, text: str) -> list[Offer]:
    """Return the results, at most a few of each group."""
    words = text.lower().split()
    if not words:
        return []
    meant = _meant(context, words)
    hits = list(search(context, _name_of(words) if meant else text))
    if meant and not hits:
        hits = list(search(context, text))  # a name of several words
    resources = [_resource(context, found) for found in _with_projects(context, hits)]
    actions = _actions(context, meant, hits)
    return [*actions, *resources, *_forms(context, words), *_pages(context, words)]


def grouped(offers: list[Offer]) -> list[tuple[str, list[Offer]]]:
    """Return the offers by group, in order."""
    return [(group, list(found)) for group, found in groupby(offers, key=lambda offer: offer.group)]


def _with_projects(context: RequestContext, hits: list[Hit]) -> Iterator[tuple[Hit, str]]:
    """Yield the resources that were found, with the names of other projects for operators."""
    foreign = {hit.project_id for hit in hits if hit.project_id and hit.project_id != context.project_id}
    names = names_of_projects(foreign) if foreign and context.is_admin else {}
    for hit in hits:
        yield hit, names.get(hit.project_id, "") if hit.project_id else ""


def _resource(context: RequestContext, found: tuple[Hit, str]) -> Offer:
    hit, project = found
    detail = " · ".join(filter(None, (hit.detail, project)))
    return Offer(f"{hit.label}s", hit.name, address_of(context, hit), ICONS[hit.kind], detail)


def _name_of(words: list[str]) -> str:
    """Return the words after the action: ``web-3`` of ``stop web-3``."""
    return " ".join(words[1:])


def _meant(context: RequestContext, words: list[str]) -> list[ServerAction[Any]]:
    """Return the actions whose label begins with the first word, if an instance's name follows."""
    if len(words[0]) < LEAST_VERB or not _name_of(words):
        return []
    return [
        action
        for action in with_buttons()
        if action.button and action.button.label.lower().startswith(words[0]) and policy.allows(context, action.rule)
    ]


def _actions(context: RequestContext, meant: list[ServerAction[Any]], hits: list[Hit]) -> Iterator[Offer]:
    """Yield these actions for each found instance on which they are possible now."""
    masters = policy.allows(context, "os_compute_api:os-lock-server:unlock:unlock_override")
    for action in meant:
        for hit in hits:
            if action.button and hit.kind == "instance" and can(hit.record, action, masters=masters):
                to = reverse("dashboard:instance_action", args=[hit.id, action.button.name])
                yield Offer("Actions", f"{action.button.label} {hit.name}", to, action.button.icon)


def _forms(context: RequestContext, words: list[str]) -> Iterator[Offer]:
    scope = navigation.scope_of(context)
    for form in FORMS:
        own = {"domain_id": context.domain_id, "user_id": context.user_id, "project_id": context.project_id}
        identity = form.rule.partition(":")[0] == "identity" and "credential" not in form.rule
        meant = _is_meant(words, f"{form.title} {form.keywords}") and (scope == "project" or identity)
        if meant and policy.allows(context, form.rule, own):
            yield Offer("Create", form.title, reverse(f"dashboard:{form.url_name}"), form.icon)


def _pages(context: RequestContext, words: list[str]) -> Iterator[Offer]:
    for entry in navigation.entries_for(context):
        if _is_meant(words, f"{entry.label} {entry.group}"):
            yield Offer("Pages", entry.label, reverse(entry.url_name), entry.icon)
    for label, url_name, icon, more, rule in OTHER_PAGES:
        opens = url_name not in OF_PROJECT or context.project_id is not None
        if opens and _is_meant(words, f"{label} {more}") and (not rule or policy.allows(context, rule)):
            yield Offer("Pages", label, reverse(f"dashboard:{url_name}"), icon)


def _is_meant(words: list[str], text: str) -> bool:
    """Whether each word is the beginning of a word of the text."""
    known = text.lower().split()
    return all(any(each.startswith(word) for each in known) for word in words)


def address_of(context: RequestContext, hit: Hit) -> str:
    """Return the address of the resource's page, of the page that shows it, or of its list."""
    foreign = context.is_admin and hit.project_id not in {None, context.project_id}
    if foreign and hit.kind in RECORDS:
        try:
            return reverse(f"admin:{RECORDS[hit.kind]}_change", args=[hit.id])
        except NoReverseMatch:  # the process serves no operators' pages
            return reverse("dashboard:overview")
    if hit.kind in PAGES:
        return reverse(f"dashboard:{PAGES[hit.kind]}", args=[hit.id])
    if hit.parent is not None:
        return reverse("dashboard:network", args=[hit.parent])
    return f"{reverse(f'dashboard:{LISTS[hit.kind]}')}?{urlencode({'q': hit.name})}"
