"""Members of a project, a domain or the system: users and groups with their roles on it."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import identity as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage
from portal.dashboard.identity import base, places
from portal.dashboard.identity.base import IdentityPage
from portal.dashboard.identity.forms import (
    DomainGrantForm,
    DomainMemberForm,
    GrantForm,
    MemberForm,
    RoleGiveForm,
    SystemGrantForm,
    SystemMemberForm,
)
from portal.dashboard.identity.places import (
    GRANT,
    REVOKE,
    OfDomain,
    OfProject,
    OfSystem,
    PlacePage,
    check_grants,
    name_of,
    offered_roles,
)
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.words.names import bdi
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Domain, Group, Role, User
from provisioning.identity.roles.grant_target import Place
from provisioning.identity.selectors import dashboard_lists, members
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services import onboarding

LIST = "identity:list_role_assignments"
Kind = TypeVar("Kind", bound=GrantForm)


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A row of the table of members; an action that the caller may not run has an empty address."""

    member: members.Member
    page: str
    change: str
    remove: str


def members_shown(page: IdentityPage, place: Place) -> dict[str, Any]:
    """Return the members of a target and the permitted actions; a domain manager cannot change members of other
    domains.
    """
    can_grant, can_revoke = (places.may_grant(page, rule, place) for rule in (GRANT, REVOKE))
    rows = []
    for member in members.members_of(place):
        near = not page.within or member.actor.domain_id == page.within
        ids = (member.kind, member.actor.id)
        rows.append(
            MemberRow(
                member,
                page=reverse(f"dashboard:{member.kind}_page", args=[member.actor.id]) if near else "",
                change=places.address_of(place, "member_roles", *ids) if near and can_grant else "",
                remove=places.address_of(place, "member_remove", *ids)
                if near and can_revoke and (member.own or member.handed_down)
                else "",
            )
        )
    return {
        "members": rows,
        "most_members": members.MOST_MEMBERS,
        "can_grant": can_grant,
        "add_member": places.address_of(place, "member_add"),
        "place_domain_id": places.domain_of(place),
    }


class MemberAdd(FormPage, PlacePage):
    """The form to assign roles on the target to another user or group, with a search."""

    template = "dashboard/identity/member_add.html"

    def form(self, data: QueryDict | None = None) -> Form:
        text, within = base.search_of(self.request.GET), self.within
        users = dashboard_lists.users_to_choose(text, within=within)
        groups = dashboard_lists.groups_to_choose(text, within=within)
        form = _form_for(self.place, MemberForm, DomainMemberForm, SystemMemberForm)
        return form(data, offered_roles(self, self.place), users, groups, within=within)

    def save(self, form: Form) -> HttpResponse:
        """Assign the roles, in addition to existing ones."""
        place, who = self.place, form.cleaned_data["who"]
        roles, handed_down = form.cleaned_data["roles"], form.cleaned_data.get("handed_down", [])
        check_grants(self, GRANT, place, who, [*roles, *handed_down])
        onboarding.add_roles(who, place, roles, handed_down=handed_down)
        return self.go(places.page_of(place), message=f"{bdi(who.name)} has a role on {bdi(name_of(place))} now.")

    def calls(self, form: Form) -> Sequence[Call]:
        place, typed = self.place, form.cleaned_data
        handed_down = typed.get("handed_down", [])
        return [
            *role_calls(place, typed["who"], typed["roles"]),
            *role_calls(place, typed["who"], handed_down, inherited=True),
        ]

    def extra_context(self) -> Mapping[str, Any]:
        return {**_place_texts(self.place), "text": base.search_of(self.request.GET)}


class MemberPage(PlacePage):
    """Base of the pages of one member."""

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        """Read the actor from the address."""
        super().setup(request, *args, **kwargs)
        self.actor_kind, self.actor_id = str(kwargs["kind"]), uuid.UUID(str(kwargs["actor_id"]))
        if self.actor_kind not in {"user", "group"}:
            raise Http404
        self.from_actor = request.GET.get("from") == "actor"

    @property
    def actor(self) -> User | Group:
        """The user or group. Raises NotFoundError if it does not exist, or if it is not in the token's domain."""
        result = existing_actor(self.actor_kind, self.actor_id)
        if self.within and result.domain_id != self.within:
            raise NotFoundError(f"There is no such {self.actor_kind}.")
        return result

    def back(self) -> str:
        """Return the page from which the user came: the page of the target, or of the member."""
        if self.from_actor:
            return reverse(f"dashboard:{self.actor_kind}_page", args=[self.actor_id])
        return places.page_of(self.place)

    def address(self, name: str) -> str:
        came_from = "?from=actor" if self.from_actor else ""
        return places.address_of(self.place, name, self.actor_kind, self.actor_id) + came_from


class MemberRoles(FormPage, MemberPage):
    """The form for the roles of a member on the target, in the dialog or on a page of its own."""

    edits = True
    template = "dashboard/identity/member_roles.html"

    def form(self, data: QueryDict | None = None) -> Form:
        place, actor = self.place, self.actor
        own = members.own_roles(place, actor)
        if not isinstance(place, Domain):
            form = _form_for(place, GrantForm, GrantForm, SystemGrantForm)
            return form(data, offered_roles(self, place, own), ticked=own)
        handed_down = members.own_roles(place, actor, inherited=True)
        offered = offered_roles(self, place, [*own, *handed_down])
        return DomainGrantForm(data, offered, ticked=own, handed_down=handed_down)

    def save(self, form: Form) -> HttpResponse:
        place, actor = self.place, self.actor
        roles: list[list[Role]] = [form.cleaned_data["roles"]]
        present = [members.own_roles(place, actor)]
        if isinstance(place, Domain):
            roles.append(form.cleaned_data["handed_down"])
            present.append(members.own_roles(place, actor, inherited=True))
        for now, before in zip(roles, present, strict=True):
            check_grants(self, GRANT, place, actor, [role for role in now if role not in before])
            check_grants(self, REVOKE, place, actor, [role for role in before if role not in now])
        onboarding.set_roles(actor, place, roles[0], handed_down=roles[1] if len(roles) > 1 else None)
        return self.go(self.back(), message=f"The roles of {bdi(actor.name)} on {bdi(name_of(place))} are saved.")

    def calls(self, form: Form) -> Sequence[Call]:
        place, actor = self.place, self.actor
        result: list[Call] = []
        for name, chosen in changes(form).items():
            inherited = name == "handed_down"
            present = members.own_roles(place, actor, inherited=inherited)
            added, removed = (
                [each for each in ours if each not in others] for ours, others in ((chosen, present), (present, chosen))
            )
            result += role_calls(place, actor, added or ([] if removed else chosen), inherited=inherited)
            result += role_calls(place, actor, removed, inherited=inherited, revoked=True)
        return result

    def extra_context(self) -> Mapping[str, Any]:
        action = self.address("member_roles")
        return {**_place_texts(self.place), "actor": self.actor, "action": action, "back": self.back()}

    def show(self, form: Form, *, status: int = 200) -> HttpResponse:
        if self.request.headers.get("HX-Request"):
            return self.part("dashboard/identity/_member_roles.html", self.form_context(form), status=status)
        return super().show(form, status=status)


class MemberRemove(QuestionPage, MemberPage):
    """Asks for confirmation, and revokes all roles of a member on the target, including roles that the projects of a
    domain inherit.
    """

    rule = REVOKE
    question = "Remove {name} from {place}?"
    label = "Remove"
    message = "The roles of {name} on {place} were revoked."
    stays = True

    def text(self) -> str:
        above = "" if isinstance(self.place, str) else " or inherited roles"
        return (
            f"Roles assigned here are revoked immediately, including on open pages. Roles from a group{above} are kept."
        )

    def words(self) -> Mapping[str, object]:
        return {"name": bdi(self.actor.name), "place": bdi(name_of(self.place))}

    def do(self) -> None:
        place, actor = self.place, self.actor
        handed_down = isinstance(place, Domain)
        held = members.own_roles(place, actor)
        held += members.own_roles(place, actor, inherited=True) if handed_down else []
        check_grants(self, REVOKE, place, actor, held)
        onboarding.set_roles(actor, place, [], handed_down=[] if handed_down else None)


class ProjectMemberAdd(MemberAdd, OfProject):
    """Adds a member to a project."""


class ProjectMemberRoles(MemberRoles, OfProject):
    """The roles of a member of a project."""


class ProjectMemberRemove(MemberRemove, OfProject):
    """Removes a member from a project."""


class DomainMemberAdd(MemberAdd, OfDomain):
    """Assigns roles on a domain to another user or group."""


class DomainMemberRoles(MemberRoles, OfDomain):
    """The roles of a user or group on a domain."""


class DomainMemberRemove(MemberRemove, OfDomain):
    """Revokes the roles of a user or group on a domain."""


class SystemMemberAdd(MemberAdd, OfSystem):
    """Assigns roles on the system to another user or group."""


class SystemMemberRoles(MemberRoles, OfSystem):
    """The roles of a user or group on the system."""


class SystemMemberRemove(MemberRemove, OfSystem):
    """Revokes the roles of a user or group on the system."""

    rule = "identity:revoke_system_grant_for_user"


class RoleGive(FormPage, IdentityPage):
    """The form to assign roles on a project, found by a search, to a user or group (``kind``)."""

    rule = GRANT
    template = "dashboard/identity/role_give.html"
    kind = ""

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find the user or group and return its policy target. The policy is checked before a missing user or group is
        reported, so that only callers whom the rule allows learn that it is missing.
        """
        self.section = f"{self.kind}s"
        self.actor_id = uuid.UUID(str(kwargs[f"{self.kind}_id"]))
        try:
            actor = self.actor
        except NotFoundError:
            return {}
        return {**base.target_of(actor), **places.least_grant(actor.domain_id)}

    @property
    def actor(self) -> User | Group:
        """The user or group. Raises NotFoundError if it does not exist."""
        return existing_actor(self.kind, self.actor_id)

    def form(self, data: QueryDict | None = None) -> Form:
        projects = dashboard_lists.projects_to_choose(base.search_of(self.request.GET), within=self.within)
        return RoleGiveForm(data, places.offered_in(self, self.actor.domain_id), projects, within=self.within)

    def save(self, form: Form) -> HttpResponse:
        """Assign the roles, in addition to existing ones."""
        actor, project, roles = self.actor, form.cleaned_data["project"], form.cleaned_data["roles"]
        check_grants(self, GRANT, project, actor, roles)
        onboarding.add_roles(actor, project, roles)
        return self.go(self.back(), message=f"{bdi(actor.name)} has a role on {bdi(project.name)} now.")

    def calls(self, form: Form) -> Sequence[Call]:
        return role_calls(form.cleaned_data["project"], self.actor, form.cleaned_data["roles"])

    def back(self) -> str:
        """Return to the page of the user or group."""
        return reverse(f"dashboard:{self.kind}_page", args=[self.actor_id])

    def extra_context(self) -> Mapping[str, Any]:
        return {
            "actor": self.actor,
            "text": base.search_of(self.request.GET),
            "list": f"dashboard:{self.kind}s",
            "list_name": f"{self.kind.capitalize()}s",
            "back": self.back(),
        }


def role_calls(
    place: Place, actor: User | Group, roles: Sequence[Role], *, inherited: bool = False, revoked: bool = False
) -> list[Call]:
    """Return a call for each role of a user or group on a project or domain: one that assigns or revokes it.

    ``inherited``: the roles that the projects of a domain inherit.
    """
    who, where = type(actor).__name__.lower(), "domain" if isinstance(place, Domain) else "project"
    if isinstance(place, str):
        kind = copied.on_system(who)
    else:
        kind = copied.assignment(who, on_domain=where == "domain", inherited=inherited)
    kind = copied.revoked(kind) if revoked else kind
    ids = {f"{who}_id": actor.id.hex, **({} if isinstance(place, str) else {f"{where}_id": hexed(place.pk)})}
    return [Call(kind, {**ids, "role_id": role.id.hex}) for role in roles]


def hexed(key: object) -> str:
    """Return an id as the Identity API writes it."""
    return key.hex if isinstance(key, uuid.UUID) else str(key)


def existing_actor(kind: str, actor_id: uuid.UUID) -> User | Group:
    """Return the user or group with this id. Raises NotFoundError if it does not exist."""
    return existing(Group, actor_id) if kind == "group" else existing(User, actor_id)


def _form_for(place: Place, project: type[Kind], domain: type[Kind], system: type[Kind]) -> type[Kind]:
    if isinstance(place, str):
        return system
    return domain if isinstance(place, Domain) else project


def _place_texts(place: Place) -> dict[str, str]:
    """Return the target's name, page and list for the templates."""
    kind = place if isinstance(place, str) else type(place).__name__.lower()
    return {
        "place_name": name_of(place),
        "place_kind": kind,
        "place_page": places.page_of(place),
        "place_list": "" if isinstance(place, str) else reverse(f"dashboard:{kind}s"),
    }
