"""Forms of the settings: password and profile."""

from typing import Any

from django import forms
from django.http import QueryDict

from portal.dashboard.frame.forms import Form, OfferedField
from portal.dashboard.words.names import bdi
from provisioning.common.values.ids import read_id
from provisioning.identity.models import Project, User


class NewPasswordForm(Form):
    """The current password, the new password and its confirmation."""

    focuses = False

    original = forms.CharField(
        label="Current password", strip=False, widget=forms.PasswordInput({"autocomplete": "current-password"})
    )
    password = forms.CharField(
        label="New password", strip=False, widget=forms.PasswordInput({"autocomplete": "new-password"})
    )
    again = forms.CharField(
        label="New password again", strip=False, widget=forms.PasswordInput({"autocomplete": "new-password"})
    )

    def clean(self) -> dict[str, Any]:
        typed = super().clean() or self.cleaned_data
        if {"password", "again"} <= typed.keys() and typed["password"] != typed["again"]:
            self.add_error("again", "The two passwords differ.")
        return typed


class ProfileForm(Form):
    """Email address, description and default project."""

    focuses = False

    email = forms.EmailField(
        label="E-mail", required=False, max_length=254, widget=forms.EmailInput({"autocomplete": "email"})
    )
    description = forms.CharField(required=False)
    project = OfferedField(
        label="Default project",
        required=False,
        widget=forms.Select,
        help_text="The project that you work in after signing in.",
    )

    def __init__(self, data: QueryDict | None, person: User, projects: list[Project], *, can_update: bool) -> None:
        initial = {"email": person.email, "description": person.description, "project": person.default_project_id}
        super().__init__(data, initial=initial)
        self.projects = projects
        several_domains = len({project.domain_id for project in projects}) > 1
        names = {
            each.id: f"{bdi(each.name)} · {bdi(each.domain.name)}" if several_domains else each.name
            for each in projects
        }
        self.offer("project", [("", "the first project by name"), *((str(key), name) for key, name in names.items())])
        for field in self.fields.values():
            field.disabled = not can_update

    def clean_project(self) -> Project | None:
        chosen = self.cleaned_data["project"]
        if not chosen:
            return None
        project = next((each for each in self.projects if each.id == read_id(chosen)), None)
        if project is None:
            raise forms.ValidationError("Choose a project that you have a role on.")
        return project
