"""The form for a new application credential."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils import timezone

from portal.dashboard.frame.forms import ChoiceLabel, Form, OfferedListField
from portal.dashboard.words import wording
from provisioning.identity.models import Role
from provisioning.identity.services.application_credentials import RequestPattern

EXPIRIES = (
    ("1", "in a day"),
    ("7", "in a week"),
    ("30", "in 30 days"),
    ("90", "in 90 days"),
    ("365", "in a year"),
    ("never", "never"),
    ("at", "at a time of your choice"),
)
USUAL_EXPIRY = "90"


class CredentialForm(Form):
    """Rights and expiry of an application credential.

    Initially all roles are selected except ``admin``, which few programs need.
    """

    service_fields = {"service": "access_rules", "method": "access_rules", "path": "access_rules"}
    notes = {"expires_at": "UTC"}

    name = forms.CharField(max_length=255, widget=forms.TextInput({"placeholder": "nightly-backup"}))
    description = forms.CharField(required=False)
    roles = OfferedListField(label="Roles", error_messages={"required": "Choose at least one role."})
    expiry = forms.ChoiceField(label="Expires", choices=EXPIRIES, initial=USUAL_EXPIRY, required=False)
    expires_at = forms.CharField(
        label="Time", max_length=32, required=False, widget=forms.TextInput({"type": "datetime-local"})
    )
    access_rules = forms.CharField(
        label="Access rules",
        required=False,
        widget=forms.Textarea({"class": "mono small", "rows": 3, "placeholder": "compute GET /v2.1/servers/**"}),
        help_text="One per line: service, method, path. The program can then send only these requests."
        " * stands for one part of a path, ** for any number of parts.",
    )
    unrestricted = forms.BooleanField(required=False)

    def __init__(self, data: QueryDict | None, own: list[Role]) -> None:
        """``own``: the user's roles in the project."""
        names = [role.name for role in own]
        super().__init__(data, initial={"roles": [name for name in names if name != "admin"] or names})
        self.own = own
        self.offer(
            "roles",
            [(role.name, ChoiceLabel(role.name, role.description or wording.ROLES.get(role.name, ""))) for role in own],
        )
        now = timezone.now()
        self.fields["expires_at"].widget.attrs["min"] = f"{now:%Y-%m-%dT%H:%M}"
        self.fields["expires_at"].help_text = f"It is now {now:%Y-%m-%d %H:%M} UTC."

    @property
    def is_advanced(self) -> bool:
        """Whether the advanced part has a value or an error."""
        return bool(self["unrestricted"].value() or self["access_rules"].value() or "access_rules" in self.errors)

    def clean_roles(self) -> list[Role]:
        chosen = set(self.cleaned_data["roles"])
        if chosen - {role.name for role in self.own}:
            raise forms.ValidationError("You do not have all of these roles in this project.")
        return [role for role in self.own if role.name in chosen]

    def clean_access_rules(self) -> list[RequestPattern]:
        rules = []
        for number, line in enumerate(self.cleaned_data["access_rules"].splitlines(), 1):
            words = line.split()
            if words and len(words) != 3:
                raise forms.ValidationError(f"Line {number} must have a service, a method and a path.")
            if words:
                rules.append(RequestPattern(words[0], words[1].upper(), words[2]))
        return rules

    def clean(self) -> dict[str, Any]:
        """Set ``expires_at`` from the chosen expiry; a typed time applies only if ``at`` is chosen."""
        typed = super().clean() or self.cleaned_data
        expiry = typed.pop("expiry", None) or USUAL_EXPIRY
        if expiry == "at":
            try:
                typed["expires_at"] = _moment(typed.get("expires_at", ""))
            except ValueError:
                self.add_error("expires_at", "Enter a date and time in UTC, such as 2030-12-31 18:00.")
        else:
            self.errors.pop("expires_at", None)
            typed["expires_at"] = None if expiry == "never" else timezone.now() + timedelta(days=int(expiry))
        return typed


def _moment(text: str) -> datetime:
    """Read a time in UTC. Raises ValueError if it is malformed or has a time zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        raise ValueError(text)
    return moment.replace(tzinfo=UTC)
