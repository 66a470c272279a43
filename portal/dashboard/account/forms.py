"""The forms before the sign-in: signing in, and a new password in the place of one that has expired."""

from typing import ClassVar

from django import forms
from django.conf import settings
from django.http import QueryDict

from portal.dashboard.forms import Form
from portal.dashboard.settings.forms import NewPasswordForm
from provisioning.common.errors import NovellaError

DEFAULT_DOMAIN = "Default"


class PersonForm(Form):
    """Base: who somebody is; ``proof`` is the field of the present password."""

    notes = {"domain": ""}
    proof: ClassVar[str]

    user_name = forms.CharField(
        label="User name",
        max_length=255,
        widget=forms.TextInput({"autocomplete": "username", "autocapitalize": "none"}),
    )
    domain = forms.CharField(
        max_length=64, required=False, initial=DEFAULT_DOMAIN, widget=forms.TextInput({"autocapitalize": "none"})
    )

    def clean_domain(self) -> str:
        return self.cleaned_data["domain"] or DEFAULT_DOMAIN

    @property
    def focused(self) -> str:
        if self.errors.keys() & self.fields.keys():
            return super().focused
        return self.proof if self["user_name"].value() else "user_name"

    @property
    def names_domain(self) -> bool:
        """Whether the domain is shown: another one is typed, or it may be what is wrong."""
        return bool(self.errors) or self["domain"].value() not in {"", DEFAULT_DOMAIN}

    def refuse(self, error: NovellaError) -> None:
        """Describe the password by what is wrong when that concerns no field alone."""
        super().refuse(error)
        if self.non_field_errors():
            self.fields[self.proof].widget.attrs["aria-describedby"] = "form_error"


class SignInForm(PersonForm):
    """Name, password and, where the cloud asks for it, a passcode."""

    notes = {**PersonForm.notes, "passcode": ""}
    proof = "password"

    password = forms.CharField(strip=False, widget=forms.PasswordInput({"autocomplete": "current-password"}))
    passcode = forms.CharField(
        label="Passcode, if you use an authenticator app",
        max_length=16,
        required=False,
        widget=forms.TextInput({"inputmode": "numeric", "autocomplete": "one-time-code"}),
    )

    def __init__(self, data: QueryDict | None = None) -> None:
        super().__init__(data)
        if not settings.TOTP:
            del self.fields["passcode"]


class ExpiredPasswordForm(PersonForm, NewPasswordForm):
    """Who somebody is, the present password, and a new one twice."""

    proof = "original"
