"""Adds the users of a list to a project: a preview of each line, then one transaction, and the passwords once."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from portal.common.http import rate_limits
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage
from portal.dashboard.identity import places
from portal.dashboard.identity.base import target_of
from portal.dashboard.identity.forms import MemberListForm
from portal.dashboard.identity.places import GRANT, OfProject, check_grants, offered_roles
from portal.dashboard.lists.export import plain
from portal.dashboard.words.names import bdi
from provisioning.identity import policy
from provisioning.identity.models import User
from provisioning.rosters import members
from provisioning.rosters.members import MemberList

if TYPE_CHECKING:
    from django.http import HttpResponse, QueryDict

    from provisioning.rosters.plan import NewUser

CREATE_USER = "identity:create_user"
STATES = {
    members.NEW: "is created",
    members.JOINS: "exists and gets the role",
    members.MEMBER: "exists and has the role",
    members.EXISTS: "exists",
}
"""State of a line → its text in the preview."""


@method_decorator(never_cache, name="dispatch")
class ProjectMemberList(FormPage, OfProject):
    """The form for a list of users. Callers need the rules for a new user and for a role on the project."""

    template = "dashboard/identity/member_list.html"
    counted = ""
    checked: MemberList | None = None
    """The list whose preview is shown."""

    def _check_policy(self) -> None:
        super()._check_policy()
        policy.enforce(self.context, CREATE_USER, target_of(self.place))

    def form(self, data: QueryDict | None = None) -> Form:
        return MemberListForm(data, offered_roles(self, self.place))

    def save(self, form: Form) -> HttpResponse:
        """Show the preview, or create the users if their preview was shown and the list has no errors."""
        project, role = self.place, form.cleaned_data["role"]
        check_grants(self, GRANT, project, User(domain=project.domain), [role])
        people = MemberList(form.cleaned_data["people"], project, role)
        self.checked = people
        if "create" not in self.request.POST or form.cleaned_data["seen"] != digest_of(form) or people.problems:
            return self.show(form, status=422 if people.problems else 200)
        joined = people.count(members.JOINS)
        rate_limits.check(self.context, rate_limits.WRITES, people.count(members.NEW) + joined)
        created = people.create()
        if people.problems:
            return self.show(form, status=422)
        if not created:
            words = (
                f"{joined:,} users of the list have the role {bdi(role.name)} now." if joined else "Nothing changed."
            )
            return self.go(places.page_of(project), message=words)
        shown = {"project": project, "role": role, "created": created, "joined": joined, "table": table(created)}
        return self.page("dashboard/identity/member_list_done.html", shown, status=201)

    def extra_context(self) -> Mapping[str, Any]:
        return {"project": self.place}

    def form_context(self, form: Form) -> dict[str, Any]:
        context = super().form_context(form)
        people = self.checked
        if people is None:
            return context
        return {
            **context,
            "people": people,
            "lines": [(line, STATES.get(line.state, "")) for line in people.lines],
            "wrong": people.count(members.WRONG),
            "new": people.count(members.NEW),
            "joins": people.count(members.JOINS),
            "digest": "" if people.problems else digest_of(form),
        }


def digest_of(form: Form) -> str:
    """Return the digest of the list and the role of a valid form."""
    typed = form.cleaned_data
    return hashlib.sha256(f"{typed['role'].name}\n{typed['people']}".encode()).hexdigest()


def table(users: list[NewUser]) -> str:
    """Return the new users and their passwords as CSV."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["user", "password"])
    writer.writerows([plain(user.name), user.password] for user in users)
    return text.getvalue()
