"""The lists of projects, users, groups, roles and domains."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import F, Q
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.html import format_html

from portal.dashboard.graphs import bars
from portal.dashboard.identity import base, wording
from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.declaration import (
    BY_NAME,
    Column,
    Empty,
    Filter,
    HeadLink,
    RecordList,
    fixed,
    same,
    searched,
)
from portal.dashboard.templatetags import novella as tags
from provisioning.common.context import RequestContext
from provisioning.identity import policy
from provisioning.identity.models import Domain, Group, Project, Role, User
from provisioning.identity.selectors import dashboard_lists as lists
from provisioning.identity.services.roles import is_immutable
from provisioning.quotas.selectors import holdings

Row = dict[str, Any]
SHORT = 80
"""Characters of a description that a list shows."""
QUOTAS = "os_compute_api:os-quota-sets:detail"
LEAST = {"role_domain_id": None, "beyond_domains": False}
"""Policy attributes of a global role. A caller who may let a role imply any role may let it imply a role with these
attributes.
"""


def rule_of(domain_id: str | None, verb: str) -> str:
    """Return the rule for a role of a domain, or for a global role."""
    return f"identity:{verb}_role" if domain_id is None else f"identity:{verb}_domain_role"


def _create(kind: str, icon: str = "plus-lg") -> HeadLink:
    return HeadLink(f"New {kind}", f"dashboard:{kind}_create", icon, rule=f"identity:create_{kind}")


def _within(context: RequestContext) -> str:
    return context.domain_id or ""


def _short(text: str) -> str:
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"


def _named(of: str) -> Column:
    """Return the column with the name as link to the record's page."""

    def draw(row: Row) -> object:
        record = row[of]
        return cells.name(record.name, cells.url(f"dashboard:{of}_page", record.pk), below=_short(record.description))

    return columns.name(draw, lambda row: row[of].name)


def _domains(context: RequestContext) -> list[tuple[str, str]]:
    return [(each.id, each.name) for each in lists.all_domains(within=_within(context))]


def _several(context: RequestContext) -> bool:
    """Whether the caller sees more than one domain."""
    return len(_domains(context)) > 1


def _domain(of: str) -> Column:
    return Column(
        "domain",
        "Domain",
        lambda row: cells.bdi(row[of].domain.name),
        sort=Lower("domain__name"),
        css="muted",
        seen=_several,
    )


DOMAIN = Filter("domain", "Domain", _domains, same("domain"), closed=False, seen=_several)


def _state(_: RequestContext, value: str) -> Q:
    if value == "expired":
        return Q(password_expires_at__lte=timezone.now())
    return Q(enabled=value == "enabled")


def _states(*more: tuple[str, str]) -> Filter:
    return Filter("state", "State", fixed(("enabled", "Enabled"), ("disabled", "Disabled"), *more), _state, quick=True)


STATE = Column(
    "state",
    "State",
    lambda row: cells.status(row["status"]),
    sort="enabled",
    plain=lambda row: row["status"].word,
    titled=False,
)


def _count(key: str, label: str, of: str, sort: Any) -> Column:
    return Column(key, label, lambda row: getattr(row[of], key), sort=sort, css="num", largest_first=True)


# --- projects ---------------------------------------------------------------------------------------------------------


def _shows_quotas(context: RequestContext) -> bool:
    """Whether the policy allows the caller to see the usage of every project."""
    return policy.allows(context, QUOTAS, {"project_id": None})


def _projects(context: RequestContext, projects: Sequence[Project]) -> list[Row]:
    shown = _shows_quotas(context)
    held = holdings([project.id for project in projects], bars.LAUNCH) if shown else {}
    return [
        {
            "project": each,
            "status": wording.project_status(each),
            "bars": bars.bars_of(held[each.id], bars.LAUNCH) if shown else (),
        }
        for each in projects
    ]


def _bar(number: int, resource: str) -> Column:
    return Column(
        resource,
        bars.LABELS[resource],
        lambda row: tags.meter(row["bars"][number], bare=True) if row["bars"] else "",
        plain=lambda row: row["bars"][number].text if row["bars"] else "",
        css="usage",
        seen=_shows_quotas,
    )


PROJECTS = RecordList[Project](
    key="projects",
    model=Project,
    one="project",
    noun="projects",
    rule="identity:list_projects",
    row_id="project",
    records=lambda context, _: lists.listed_projects(_within(context)),
    detail=lambda _, rows: rows.select_related("domain").annotate(members=lists.members_of_project()),
    rows=_projects,
    default="name",
    columns=(
        _named("project"),
        _domain("project"),
        STATE,
        _count("members", "Members", "project", lists.members_of_project()),
        *(_bar(number, resource) for number, resource in enumerate(bars.LAUNCH)),
        columns.age("project", optional=True),
        columns.ident("project"),
    ),
    search=searched("name"),
    filters=(_states(), DOMAIN),
    empty=Empty("folder2", "No projects yet", "Create the first one, then assign users a role on it."),
    create=_create("project"),
    beside=(
        HeadLink(
            "Default quotas", "dashboard:quota_defaults", "sliders", rule="os_compute_api:os-quota-class-sets:update"
        ),
    ),
)

# --- users and groups -------------------------------------------------------------------------------------------------


def _users(_: RequestContext, users: Sequence[User]) -> list[Row]:
    return [{"user": each, "status": wording.user_status(each)} for each in users]


def _default_project(row: Row) -> object:
    project = row["user"].default_project
    return cells.bdi(project.name) if project else ""


_OF_USERS: tuple[Column, ...] = (
    _named("user"),
    _domain("user"),
    STATE,
    columns.attribute("email", "E-mail", "user", css="muted breaks"),
)
"""The first columns of each list of users."""
USERS = RecordList[User](
    key="users",
    model=User,
    one="user",
    noun="users",
    rule="identity:list_users",
    row_id="user",
    records=lambda context, _: lists.listed_users(_within(context)),
    detail=lambda context, rows: rows.select_related("domain", "default_project").annotate(
        projects=lists.projects_of_user(_within(context))
    ),
    rows=_users,
    default="name",
    columns=(
        *_OF_USERS,
        Column("default", "Default project", _default_project, sort=Lower("default_project__name"), css="muted breaks"),
        _count("projects", "Projects", "user", lists.projects_of_user()),
        columns.age("user", optional=True),
        columns.ident("user"),
    ),
    search=searched("name", "email"),
    find="Find by name, e-mail or ID",
    filters=(_states(("expired", "Password expired")), DOMAIN),
    empty=Empty("person", "No users yet", "Create one, with a role in the project to start with."),
    create=_create("user", "person-plus"),
)


def _groups(_: RequestContext, groups: Sequence[Group]) -> list[Row]:
    return [{"group": each} for each in groups]


GROUPS = RecordList[Group](
    key="groups",
    model=Group,
    one="group",
    noun="groups",
    rule="identity:list_groups",
    row_id="group",
    records=lambda context, _: lists.listed_groups(_within(context)),
    detail=lambda context, rows: rows.select_related("domain").annotate(
        members=lists.users_of_group(), projects=lists.projects_of_group(_within(context))
    ),
    rows=_groups,
    default="name",
    columns=(
        _named("group"),
        _domain("group"),
        _count("members", "Users", "group", lists.users_of_group()),
        _count("projects", "Projects", "group", lists.projects_of_group()),
        columns.ident("group"),
    ),
    search=searched("name"),
    filters=(DOMAIN,),
    empty=Empty(
        "people",
        "No groups yet",
        "A group assigns the same roles to many users: create one, add users, and assign it a role on projects.",
    ),
    create=_create("group"),
)


def group_users(group: Group, *, can_remove: bool) -> RecordList[User]:
    """Return the list of the users of a group; ``can_remove``: whether its rows have a button that removes the user."""

    def button(row: Row) -> object:
        user = row["user"]
        to, label = "dashboard:group_user_remove", "Remove {} from the group"
        return cells.button("x-lg", "Remove", user.name, to, group.pk, user.pk, label=label)

    return RecordList[User](
        key="group_users",
        model=User,
        one="user",
        noun="users",
        rule="identity:get_group",
        row_id="user",
        url_name="dashboard:group_page",
        url_args=(group.pk,),
        records=lambda context, _: lists.users_in(group, within=_within(context)),
        detail=lambda _, rows: rows.select_related("domain"),
        rows=_users,
        default="name",
        columns=(
            *_OF_USERS,
            columns.ident("user"),
        ),
        actions=button if can_remove else None,
        search=searched("name", "email"),
        find="Find by name, e-mail or ID",
        filters=(_states(("expired", "Password expired")),),
        empty=Empty("people", "No users yet", "Users of this group get its roles."),
    )


# --- roles and domains ------------------------------------------------------------------------------------------------


def _roles(context: RequestContext, roles: Sequence[Role]) -> list[Row]:
    def allowed(rule: str, role: Role, **more: object) -> bool:
        return policy.allows(context, rule, {**base.target_of(role), **more})

    return [
        {
            "role": each,
            "implied": sorted(row.implied.name for row in each.implies.all()),
            "immutable": is_immutable(each),
            "update": allowed(rule_of(each.domain_id, "update"), each),
            "delete": allowed(rule_of(each.domain_id, "delete"), each),
            "imply": allowed("identity:create_implied_role", each, **LEAST),
        }
        for each in roles
    ]


def _role_name(row: Row) -> object:
    role = row["role"]
    lock = cells.NOTHING
    if row["immutable"]:
        lock = format_html(
            ' <span title="Immutable">{}<span class="visually-hidden">immutable</span></span>', cells.icon("lock")
        )
    domain = format_html("Domain {}", cells.bdi(role.domain.name)) if role.domain else ""
    below = cells.join(" · ", filter(None, (domain, cells.bdi(role.description))))
    return cells.name(role.name) + lock + cells.sub(below)


def _role_buttons(row: Row) -> object:
    role, found = row["role"], []
    if row["imply"]:
        label = "Roles implied by {}"
        to = "dashboard:role_implications"
        found.append(cells.button("diagram-2", "Implied roles", role.name, to, role.id, label=label, asks=False))
    if row["update"] and not row["immutable"]:
        found.append(cells.button("pencil", "Edit", role.name, "dashboard:role_edit", role.id, asks=False))
    if row["delete"] and not row["immutable"]:
        found.append(cells.button("trash", "Delete", role.name, "dashboard:role_delete", role.id))
    return cells.join("", found)


def _scope(_: RequestContext, value: str) -> Q:
    return Q(domain__isnull=value == "global")


ROLES = RecordList[Role](
    key="roles",
    model=Role,
    one="role",
    noun="roles",
    rule="identity:list_roles",
    row_id="role",
    records=lambda context, _: lists.listed_roles(_within(context)),
    detail=lambda context, rows: (
        rows.select_related("domain")
        .prefetch_related("implies__implied")
        .annotate(assignments=lists.assignments_of_role(_within(context)))
    ),
    rows=_roles,
    default="name",
    order=lambda _: (F("domain").asc(nulls_first=True), BY_NAME),
    columns=(
        columns.name(_role_name, lambda row: row["role"].name),
        Column(
            "implied",
            "Implies",
            lambda row: cells.join(" ", (cells.tag(cells.bdi(name)) for name in row["implied"])),
            plain=lambda row: ", ".join(row["implied"]),
        ),
        Column(
            "assignments",
            "Assignments",
            lambda row: str(row["role"].assignments),
            sort=lists.assignments_of_role(),
            css="num text-nowrap",
            largest_first=True,
        ),
        columns.ident("role"),
    ),
    actions=_role_buttons,
    search=searched("name"),
    filters=(Filter("scope", "Scope", fixed(("global", "Global"), ("domain", "Of a domain")), _scope),),
    empty=Empty(
        "shield",
        "No roles yet",
        "The roles admin, manager, member, reader and service are created when the cloud is set up.",
    ),
    create=_create("role"),
)


def _all_domains(context: RequestContext, domains: Sequence[Domain]) -> list[Row]:
    target = {"domain_id": context.domain_id}
    may = {verb: policy.allows(context, f"identity:{verb}_domain", target) for verb in ("update", "delete")}
    return [
        {"domain": each, "status": wording.ENABLED if each.enabled else wording.DISABLED, **may} for each in domains
    ]


def _linked(key: str, label: str, kind: type[Project | User | Group]) -> Column:
    """Return the column with the number of records in a domain, as link to their list."""

    def draw(row: Row) -> object:
        address = f"{cells.url(f'dashboard:{key}')}?domain={row['domain'].id}"
        return format_html('<a href="{}">{}</a>', address, getattr(row["domain"], key))

    return Column(key, label, draw, sort=lists.in_domain(kind), css="num", largest_first=True)


def _domain_buttons(row: Row) -> object:
    domain = row["domain"]
    return cells.join("", _of_domain(domain, row))


def _of_domain(domain: Domain, row: Row) -> Iterable[object]:
    if row["update"]:
        yield cells.button("pencil", "Edit", domain.name, "dashboard:domain_edit", domain.id, asks=False)
        if domain.enabled:
            yield cells.button("slash-circle", "Disable", domain.name, "dashboard:domain_disable", domain.id)
        else:
            yield cells.button("check-circle", "Enable", domain.name, "dashboard:domain_enable", domain.id)
    if row["delete"] and not domain.enabled:
        yield cells.button("trash", "Delete", domain.name, "dashboard:domain_delete", domain.id)


def _find_domain(_: RequestContext, text: str) -> Q:
    return Q(name__icontains=text) | Q(id=text)


DOMAINS = RecordList[Domain](
    key="domains",
    model=Domain,
    one="domain",
    noun="domains",
    rule="identity:list_domains",
    row_id="domain",
    records=lambda context, _: lists.listed_domains(_within(context)),
    detail=lambda _, rows: rows.annotate(
        projects=lists.in_domain(Project), users=lists.in_domain(User), groups=lists.in_domain(Group)
    ),
    rows=_all_domains,
    default="name",
    columns=(
        _named("domain"),
        STATE,
        _linked("projects", "Projects", Project),
        _linked("users", "Users", User),
        _linked("groups", "Groups", Group),
        Column("id", "ID", lambda row: row["domain"].id, sort="id", css="mono xsmall muted breaks"),
    ),
    actions=_domain_buttons,
    search=_find_domain,
    filters=(_states(),),
    empty=Empty("diagram-3", "No domains yet", ""),
    create=_create("domain"),
)
