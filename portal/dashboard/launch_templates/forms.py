"""Forms of launch templates and snippets."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from portal.dashboard.frame.forms import MONO, Form
from portal.dashboard.launch.forms import LaunchForm
from portal.dashboard.launch_templates.described import Described
from provisioning.common.errors import InvalidInputError, NovellaError
from provisioning.launches.errors import LockedValuesError
from provisioning.launches.plans.plan import FIELDS, LaunchPlan, values_of
from provisioning.launches.services.templates import NEVER_LOCKED, Modes

MODE = "mode_"
MODES = (("", "Can be changed"), ("asked", "Asked first"), ("locked", "Locked"))
_MODE_OF = {name: f"{MODE}{name}" for name in FIELDS if name not in {"name", "description"}}
"""Field of a plan → field of its mode, which shows the errors of a locked value."""
PERSONAL = frozenset({"name", "key_name", "password"})
"""Fields that are locked only by their own choice."""
OWN_CHOICE = PERSONAL | {"networks", "image", "flavor"}
"""Fields that *Lock the fields that are not listed* leaves open: they have no default."""


def plan_text(plan: LaunchPlan) -> str:
    """Return a plan as the text of the hidden field."""
    return msgspec.json.encode(values_of(plan)).decode()


class VersionForm(Form):
    """The plan of a version, as hidden text, and the mode of each of its fields."""

    notes = {"description": "of this version"}
    service_fields = _MODE_OF

    description = forms.CharField(label="Note", max_length=255, required=False)
    lock_listed = forms.BooleanField(
        label="Lock the listed fields",
        required=False,
        help_text="Except those that are asked first. Name, key and password stay as chosen above.",
    )
    lock_rest = forms.BooleanField(
        label="Lock the fields that are not listed", required=False, help_text="They keep their defaults."
    )
    plan = forms.CharField(widget=forms.HiddenInput, strip=False)

    def __init__(
        self, data: QueryDict | None, fields: Sequence[Described], *, initial: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(data, initial=initial)
        self.described = fields
        for each in fields:
            choices = [(key, label) for key, label in MODES if key != "locked" or each.name not in NEVER_LOCKED]
            self.fields[f"{MODE}{each.name}"] = forms.ChoiceField(
                label=each.label, choices=choices, required=False, initial=each.mode
            )

    def refuse(self, error: NovellaError) -> None:
        """Show each locked value that no launch could have at its field."""
        if not isinstance(error, LockedValuesError):
            super().refuse(error)
            return
        for name, message in error.messages.items():
            super().refuse(InvalidInputError(message, field=name))

    @property
    def rows(self) -> list[tuple[Described, Any]]:
        """Return the listed fields with their selects."""
        return [(each, self[f"{MODE}{each.name}"]) for each in self.described]

    @property
    def modes(self) -> Modes:
        """The modes of a valid form."""
        chosen = {each.name: self.cleaned_data[f"{MODE}{each.name}"] for each in self.described}
        locked = {name for name, mode in chosen.items() if mode == "locked"}
        if self.cleaned_data["lock_listed"]:
            locked |= {name for name, mode in chosen.items() if mode != "asked"} - PERSONAL
        if self.cleaned_data["lock_rest"]:
            locked |= set(FIELDS) - set(chosen) - OWN_CHOICE
        asked = {name for name, mode in chosen.items() if mode == "asked"}
        return Modes(locked=locked, asked=asked, description=self.cleaned_data["description"])


class TemplateForm(VersionForm):
    """A new launch template with its first version."""

    title = forms.CharField(
        label="Name of the template", max_length=255, widget=forms.TextInput({"placeholder": "Lab web"})
    )
    slug = forms.CharField(
        label="Link",
        max_length=64,
        required=False,
        widget=forms.TextInput({"placeholder": "lab-web"}),
        help_text="Letters, digits and hyphens. If empty, it is derived from the name.",
    )
    public = forms.BooleanField(
        label="Public", required=False, help_text="All projects can use it. Its network must be shared, or left open."
    )
    service_fields = {**_MODE_OF, "name": "title"}
    field_order = ("title", "slug", "public", "description", "lock_listed", "lock_rest")

    def __init__(self, data: QueryDict | None, fields: Sequence[Described], *, publicizes: bool, **kwargs: Any) -> None:
        super().__init__(data, fields, **kwargs)
        if not publicizes:
            del self.fields["public"]


class EditForm(Form):
    """Name, link and visibility of a launch template."""

    name = forms.CharField(max_length=255)
    slug = forms.CharField(label="Link", max_length=64)
    public = forms.BooleanField(label="Public", required=False, help_text="All projects can use it.")

    def __init__(self, data: QueryDict | None, initial: Mapping[str, Any], *, publicizes: bool) -> None:
        super().__init__(data, initial=initial)
        if not publicizes:
            del self.fields["public"]


class SnippetForm(Form):
    """A snippet of cloud-config."""

    notes = {"description": "for people", "text": "cloud-config: YAML below the line #cloud-config"}

    name = forms.CharField(max_length=64, widget=forms.TextInput({"placeholder": "monitoring"}))
    description = forms.CharField(max_length=255, required=False)
    text = forms.CharField(
        label="Text",
        strip=False,
        initial="#cloud-config\n",
        widget=forms.Textarea({"class": MONO, "rows": 12}),
    )


class LinkForm(LaunchForm):
    """The wizard's fields on the page of a template's link, where locked fields cannot be changed."""

    def __init__(self, data: QueryDict | None = None) -> None:
        super().__init__(data)
        self.sent: Mapping[str, Any] = data or {}  # without the count that LaunchForm adds
        self.asked: Sequence[str] = ("name",)
        self.correction = ""
        """The sentence that says who can correct a locked value."""

    def add_error(self, field: str | None, error: Any) -> None:
        """Add who can correct the value to the errors of a locked field."""
        if field in self.locked:
            error = " ".join([*(error.messages if isinstance(error, ValidationError) else [error]), self.correction])
        super().add_error(field, error)

    def clean(self) -> dict[str, Any]:
        """Refuse other values of locked fields. Only a page that was opened before a field was locked sends such
        values.
        """
        typed = super().clean()
        unlocked = LaunchForm(cast("QueryDict", self.data))
        unlocked.full_clean()
        changed = [
            str(self[name].label)
            for name in self.fields
            if name in self.locked and self._sent(name) and unlocked.cleaned_data.get(name) != typed.get(name)
        ]
        if changed:
            self.add_error(None, f"The launch template does not allow other values of: {', '.join(changed)}.")
        return typed

    def _sent(self, name: str) -> bool:
        widget = self.fields[name].widget
        if isinstance(widget, forms.CheckboxInput | forms.CheckboxSelectMultiple):
            return name in self.sent
        return not widget.value_omitted_from_data(self.sent, self.files, name)

    @property
    def first_fields(self) -> list[Any]:
        """Return the fields that are shown first: those that the template asks for."""
        return [self[name] for name in self.asked if name not in self.locked]

    @property
    def other_fields(self) -> list[Any]:
        """Return the other fields that can be changed."""
        hidden = {*self.asked, *self.locked, "idempotency_key"}
        names = (name for name in self.fields if name not in hidden and name != "user_data_as_is")
        return [self[name] for name in names]

    @property
    def others_open(self) -> bool:
        """Whether one of the other fields has an error."""
        return any(self.has_error(field.name) for field in self.other_fields)
