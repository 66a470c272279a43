"""The forms before sign-in: the sign-in itself, and the change of an expired password."""

from typing import ClassVar

from django import forms
from django.conf import settings
from django.http import QueryDict

from portal.dashboard.frame.forms import Form
from portal.dashboard.settings.forms import NewPasswordForm
from provisioning.common.errors import NovellaError

DEFAULT_DOMAIN = "Default"


class PersonForm(Form):
    """Base of the forms: user name and domain of a user; ``proof`` is the field of the current password."""

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
        """Whether the field for the domain is shown: the domain is not the default one, or the form has an error, which
        the domain may have caused.
        """
        return bool(self.errors) or self["domain"].value() not in {"", DEFAULT_DOMAIN}

    def refuse(self, error: NovellaError) -> None:
        """Show the error; an error without a field is connected to the password field with ``aria-describedby``."""
        super().refuse(error)
        if self.non_field_errors():
            self.fields[self.proof].widget.attrs["aria-describedby"] = "form_error"


class SignInForm(PersonForm):
    """User name, password and, if the cloud uses it, a passcode."""

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
    """User name, current password, new password and its confirmation."""

    proof = "original"
