"""Forms of domains, projects, users, groups, roles and their members."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from portal.dashboard.frame.forms import MONO, ChoiceLabel, Form, OfferedField, OfferedListField
from portal.dashboard.words.names import bdi
from provisioning.common.values.ids import read_id
from provisioning.identity.models import Domain, Group, Project, Role, User
from provisioning.identity.selectors import dashboard_lists
from provisioning.identity.selectors.lookups import by_id, record_by
from provisioning.identity.services import onboarding
from provisioning.rosters.members import MOST_BYTES

SUGGESTED = "suggested-projects"
"""The id of the datalist with suggestions for a project field."""
PASSWORDS = (
    ("make", ChoiceLabel("Generate one", "It is shown once. Send it to the user.")),
    ("type", ChoiceLabel("Type one", "It is never shown.")),
)


class RecordForm(Form):
    """Name and description of a record. ``domains`` are the choices for a new record; with None the form has no field
    for the domain.

    ``within``: if set, only this domain is valid.
    """

    name = forms.CharField(max_length=64)
    domain = OfferedField(required=False, widget=forms.Select)
    description = forms.CharField(max_length=1000, required=False)

    def __init__(
        self,
        data: QueryDict | None,
        *,
        initial: Mapping[str, Any] | None = None,
        domains: Collection[Domain] | None = None,
        within: str = "",
    ) -> None:
        super().__init__(data, initial=initial)
        self.within = within
        if domains is None:
            del self.fields["domain"]
            return
        if len(domains) == 1:
            self.fields["domain"].widget = forms.HiddenInput()
        else:
            self.offer("domain", [(each.id, each.name) for each in domains])

    def clean_domain(self) -> Domain | None:
        """Return the chosen domain, by default the initial one. Raises ValidationError."""
        return existing_domain(self.cleaned_data["domain"] or self.initial["domain"], within=self.within)


class RoleForm(RecordForm):
    """A role, global or of a domain."""

    name = forms.CharField(max_length=255)
    field_order = ("name", "description", "domain")

    def __init__(self, data: QueryDict | None, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        domains = kwargs.get("domains")
        if domains is not None:
            self.fields["domain"].widget = forms.Select()
            cloud = [] if self.within else [("", "The whole cloud")]
            self.offer("domain", [*cloud, *((each.id, each.name) for each in domains)])

    def clean_domain(self) -> Domain | None:
        chosen = self.cleaned_data["domain"] or self.within
        return existing_domain(chosen, within=self.within) if chosen else None


class ProjectForm(RecordForm):
    """A project; a new one may have a parent."""

    service_fields = {"tag": "tags", "parent_id": "parent"}

    tags = forms.CharField(max_length=2000, required=False, help_text="Tags, separated by commas.")
    parent = forms.CharField(
        label="Parent project",
        max_length=255,
        required=False,
        widget=forms.TextInput({"list": SUGGESTED}),
        help_text="Its name or ID. Inherited roles come from it.",
    )

    def __init__(self, data: QueryDict | None, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        if "domain" not in self.fields:
            del self.fields["parent"]

    def clean_tags(self) -> list[str]:
        words = map(str.strip, self.cleaned_data["tags"].split(","))
        return list(dict.fromkeys(word for word in words if word))

    def clean(self) -> dict[str, Any]:
        typed = super().clean() or self.cleaned_data
        return find_project(self, "parent", typed.get("domain"), within=self.within)


class PasswordForm(Form):
    """The choice between a generated and a typed password; after validation ``password`` has the chosen one."""

    how = forms.ChoiceField(
        label="Password", choices=PASSWORDS, initial="make", required=False, widget=forms.RadioSelect
    )
    password = forms.CharField(
        label="The password",
        max_length=1024,
        required=False,
        strip=False,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
    )
    focuses = False

    def clean(self) -> dict[str, Any]:
        typed = super().clean() or self.cleaned_data
        if typed.get("how") != "type":
            self.errors.pop("password", None)
            typed["password"] = onboarding.new_password()
        elif "password" not in self.errors and not typed["password"]:
            self.add_error("password", "Enter a password, or choose a generated one.")
        return typed


class UserForm(RecordForm):
    """The attributes of a user, and the default project."""

    service_fields = {"default_project": "project"}

    name = forms.CharField(label="User name", max_length=255)
    email = forms.CharField(
        label="E-mail", max_length=254, required=False, widget=forms.EmailInput({"autocomplete": "off"})
    )
    project = forms.CharField(
        label="Default project",
        max_length=255,
        required=False,
        widget=forms.TextInput({"list": SUGGESTED}),
        help_text="Its name or id.",
    )
    field_order = ("name", "domain", "email", "description", "how", "password", "project", "role")

    def __init__(self, data: QueryDict | None, *, own_domain: Domain | None = None, **kwargs: Any) -> None:
        """``own_domain``: the domain of the user to edit."""
        super().__init__(data, **kwargs)
        self.own_domain = own_domain

    def clean(self) -> dict[str, Any]:
        typed = super().clean() or self.cleaned_data
        return find_project(self, "project", self.own_domain or typed.get("domain"), within=self.within)


class NewUserForm(UserForm, PasswordForm):
    """A new user with a password, and a role in the default project."""

    focuses = True

    role = OfferedField(
        label="Role there",
        required=False,
        widget=forms.Select,
        help_text="More roles, also in other projects, can be assigned later.",
    )

    def __init__(self, data: QueryDict | None, *, roles: list[Role], **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.offer("role", [(role.name, role.name) for role in roles])

    def clean(self) -> dict[str, Any]:
        """Find the role by name, even if it was not offered. Without a default project the role is ignored."""
        typed = super().clean()
        chosen = typed.get("role")
        role = next((each for each in dashboard_lists.roles_to_choose() if each.name == chosen), None)
        typed["role"] = role if typed.get("project") else None
        return typed


class RolesForm(Form):
    """Checkboxes of roles; ``required``: whether at least one must be selected."""

    focuses = False

    roles = OfferedListField(error_messages={"required": "Choose at least one role."})

    def __init__(
        self,
        data: QueryDict | None,
        roles: Iterable[Role],
        *,
        ticked: Iterable[Role] = (),
        label: str = "Roles",
        required: bool = True,
    ) -> None:
        super().__init__(data, initial={"roles": [str(role.id) for role in ticked]})
        self.fields["roles"].label, self.fields["roles"].required = label, required
        self.offer("roles", [(str(role.id), self.role_label(role)) for role in roles])

    def role_label(self, role: Role) -> ChoiceLabel:
        return ChoiceLabel(role.name, role.description)

    def clean_roles(self) -> list[Role]:
        return list(dashboard_lists.roles_by_id(self.cleaned_data["roles"]))


class GrantForm(RolesForm):
    """Global roles of a user or group on a target."""

    def clean_roles(self) -> list[Role]:
        roles = [role for role in super().clean_roles() if role.domain_id is None]
        if not roles and self.fields["roles"].required:
            raise ValidationError(self.fields["roles"].error_messages["required"])
        return roles


class DomainGrantForm(GrantForm):
    """Roles on a domain, and roles inherited by all its projects; at least one must be selected."""

    handed_down = OfferedListField(label="On every project in it", required=False)

    def __init__(
        self,
        data: QueryDict | None,
        roles: Iterable[Role],
        *,
        ticked: Iterable[Role] = (),
        handed_down: Iterable[Role] = (),
    ) -> None:
        roles = list(roles)
        super().__init__(data, roles, ticked=ticked, label="On the domain itself", required=False)
        self.initial["handed_down"] = [str(role.id) for role in handed_down]
        self.offer("handed_down", [(str(role.id), ChoiceLabel(role.name, role.description)) for role in roles])
        self.fields["roles"].help_text = "To administer users, groups and projects, or to list them."
        self.fields["handed_down"].help_text = "To work in all its projects, including later ones."

    def role_label(self, role: Role) -> ChoiceLabel:
        """Omit the description, which is about the role in a project."""
        return ChoiceLabel(role.name)

    def clean_handed_down(self) -> list[Role]:
        roles = dashboard_lists.roles_by_id(self.cleaned_data["handed_down"])
        return [role for role in roles if role.domain_id is None]

    def clean(self) -> dict[str, Any]:
        typed = super().clean() or self.cleaned_data
        if not self.errors and not typed["roles"] and not typed["handed_down"]:
            self.add_error("roles", self.fields["roles"].error_messages["required"])
        return typed


class MemberForm(GrantForm):
    """A user or group, and its roles on a target; ``within``: if set, the user or group must be in this domain."""

    who = OfferedField(error_messages={"required": "Choose a user or a group."})
    field_order = ("who", "roles", "handed_down")

    def __init__(
        self,
        data: QueryDict | None,
        roles: Iterable[Role],
        users: Iterable[User],
        groups: Iterable[Group],
        *,
        within: str = "",
    ) -> None:
        super().__init__(data, roles)
        self.within = within
        choices = [(f"group:{group.id.hex}", group_label(group)) for group in groups]
        choices += [(f"user:{user.id.hex}", user_label(user)) for user in users]
        self.offer("who", choices, nothing="No user or group matches.")

    def clean_who(self) -> User | Group:
        kind, _, key = self.cleaned_data["who"].partition(":")
        actor_id = read_id(key)
        result: User | Group | None = None
        if actor_id is not None and kind == "user":
            result = by_id(User, actor_id)
        elif actor_id is not None and kind == "group":
            result = by_id(Group, actor_id)
        if result is None or (self.within and result.domain_id != self.within):
            raise ValidationError(self.fields["who"].error_messages["required"])
        return result


class MemberListForm(Form):
    """A list of users for a project, and their role; ``seen`` is the digest of the list whose preview was shown."""

    field_order = ("people", "role")
    role = OfferedField(widget=forms.Select, help_text="Every user of the list gets this role on the project.")
    people = forms.CharField(
        label="List",
        max_length=MOST_BYTES,
        strip=False,
        widget=forms.Textarea(
            {"rows": 10, "class": MONO, "wrap": "off", "placeholder": "anna, anna@school.example\nben"}
        ),
        help_text="One user per line: the user name, and optionally a comma and the e-mail address. "
        "A CSV file with the columns user and email is possible, too.",
        error_messages={"required": "Paste a list, or read it from a file."},
    )
    seen = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, data: QueryDict | None, roles: Collection[Role]) -> None:
        super().__init__(data, initial={"role": "member"})
        self.roles = {role.name: role for role in roles}
        self.offer("role", [(name, name) for name in self.roles], nothing="There is no role that you may assign.")

    @property
    def focused(self) -> str:
        """No field below a preview, which the focus would scroll away."""
        return super().focused if self.errors or not self.is_bound else ""

    def clean_role(self) -> Role:
        role = self.roles.get(self.cleaned_data["role"])
        if role is None:
            raise ValidationError("Choose a role.")
        return role


class DomainMemberForm(MemberForm, DomainGrantForm):
    """A user or group, and its roles on a domain and on the domain's projects."""


class SystemGrantForm(GrantForm):
    """Roles on the system. Their descriptions are omitted, because these are about projects."""

    def role_label(self, role: Role) -> ChoiceLabel:
        return ChoiceLabel(role.name)


class SystemMemberForm(MemberForm, SystemGrantForm):
    """A user or group, and its roles on the system."""


class RoleGiveForm(GrantForm):
    """A project, and the roles of a user or group on it; ``within``: if set, only projects of this domain are valid."""

    project = OfferedField(label="Where", error_messages={"required": "Choose a project."})
    field_order = ("project", "roles")

    def __init__(
        self, data: QueryDict | None, roles: Iterable[Role], projects: Iterable[Project], *, within: str = ""
    ) -> None:
        super().__init__(data, roles)
        self.within = within
        choices = [(str(project.id), project_label(project)) for project in projects]
        self.offer("project", choices, nothing="No project matches.")

    def clean_project(self) -> Project:
        project = by_id(Project, self.cleaned_data["project"])
        if project is None or (self.within and project.domain_id != self.within):
            raise ValidationError(self.fields["project"].error_messages["required"])
        return project


class GroupUserForm(Form):
    """A user to add to a group; ``within``: if set, only users of this domain are valid."""

    focuses = False

    who = OfferedField(error_messages={"required": "Choose a user."})

    def __init__(self, data: QueryDict | None, users: Iterable[User], *, within: str = "") -> None:
        super().__init__(data)
        self.within = within
        choices = [(str(user.id), user_label(user)) for user in users]
        self.offer("who", choices, nothing="No other users match.")

    def clean_who(self) -> User:
        user = by_id(User, self.cleaned_data["who"])
        if user is None or (self.within and user.domain_id != self.within):
            raise ValidationError(self.fields["who"].error_messages["required"])
        return user


def user_label(user: User) -> ChoiceLabel:
    known = [user.email, user.domain.name, "" if user.enabled else "disabled"]
    return ChoiceLabel(user.name, " · ".join(filter(None, known)), icon="person")


def group_label(group: Group) -> ChoiceLabel:
    return ChoiceLabel(group.name, f"Group of {bdi(group.domain.name)}", icon="people")


def project_label(project: Project) -> ChoiceLabel:
    return ChoiceLabel(project.name, project.domain.name + ("" if project.enabled else " · disabled"))


def existing_domain(key: str, *, within: str = "") -> Domain:
    """Return the domain with this id. Raises ValidationError if it does not exist, or is not ``within`` (if set)."""
    domain = by_id(Domain, key)
    if domain is None or (within and domain.id != within):
        raise ValidationError("There is no such domain.")
    return domain


def find_project(form: Form, field: str, domain: Domain | None, *, within: str = "") -> dict[str, Any]:
    """Replace the text of a field (a project's id, or its name in ``domain``) by the project, an empty text by None.

    ``within``: if set, only projects of this domain are found.
    """
    typed = form.cleaned_data
    text = typed.get(field)
    if not text or domain is None:
        typed[field] = None
        return typed
    project = by_id(Project, text) or record_by(Project, name=text, domain_id=domain.id)
    if project is None or (within and project.domain_id != within):
        form.add_error(field, f"There is no project {text[:64]} in the domain {bdi(domain.name)}.")
    typed[field] = project
    return typed
