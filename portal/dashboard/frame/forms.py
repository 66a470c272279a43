"""The base of the dashboard's forms: one template renders all fields, and errors of services are shown at their
fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from django import forms
from django.core.exceptions import ValidationError
from django.forms.renderers import TemplatesSetting
from django.http import QueryDict

from portal.dashboard.words.plain import plain
from provisioning.common.errors import NovellaError
from provisioning.common.values.numbers import MAX_INTEGER


@dataclass(frozen=True, slots=True)
class ChoiceLabel:
    """Text of a choice among radio buttons or checkboxes; ``template`` renders more of ``subject`` below it."""

    title: str
    sub: str = ""
    icon: str = ""
    tag: str = ""
    css_class: str = ""
    template: str = ""
    subject: Any = None

    def __str__(self) -> str:
        return self.title


Choices = Iterable[tuple[str, ChoiceLabel | str]]
MONO = "mono small"
"""Classes of a field for code."""


class BoundField(forms.BoundField):
    """A field with the classes and attributes of the dashboard's design."""

    form: Form

    @property
    def note(self) -> str:
        """The note next to the label: a unit, or that the field is optional."""
        typed = isinstance(self.field.widget, forms.TextInput | forms.EmailInput | forms.Textarea)
        return self.form.notes.get(self.name, "optional" if typed and not self.field.required else "")

    @property
    def saved(self) -> str:
        """The value that was saved since the form was shown; empty if its error contains it."""
        return self.form.saved.get(self.name, "")

    @property
    def lacks_choices(self) -> bool:
        """Whether the field offers nothing to choose."""
        return isinstance(self.field.widget, forms.Select | forms.RadioSelect) and not self.field.widget.choices

    @property
    def is_checkbox(self) -> bool:
        """Whether the field is a single checkbox, whose label follows it."""
        return isinstance(self.field.widget, forms.CheckboxInput)

    def build_widget_attrs(self, attrs: dict[str, Any], widget: forms.Widget | None = None) -> dict[str, Any]:
        """Add classes and focus. Choices have no ids, as their labels enclose them."""
        widget = widget or self.field.widget
        attrs = super().build_widget_attrs(attrs, widget)
        css_class = "form-control"
        if isinstance(widget, forms.CheckboxInput | forms.RadioSelect):
            css_class = "form-check-input"
        elif isinstance(widget, forms.Select):
            css_class = "form-select"
        attrs["class"] = f"{css_class} {widget.attrs.get('class', '')}".strip()
        if isinstance(widget, forms.TextInput | forms.Textarea):
            attrs = {"autocomplete": "off", "spellcheck": "false", **attrs}
        if self.use_fieldset:
            attrs.pop("id", None)
        elif self.name == self.form.focused:
            attrs["autofocus"] = True
        return {**attrs, **{name: value for name, value in widget.attrs.items() if name != "class"}}


class FormRenderer(TemplatesSetting):
    """Renders fields with the dashboard's template."""

    field_template_name = "dashboard/_field.html"
    bound_field_class = BoundField


class Form(forms.Form):
    """Base of the dashboard's forms.

    ``service_fields``: field name in errors of services → field of the form, where they differ; ``notes``: notes next
    to labels; ``focuses``: whether the first field gets the focus.
    """

    default_renderer = FormRenderer()
    shown: str = ""
    """A hidden input with digests of the values of the edited record (``edits``)."""
    saved: Mapping[str, str] = {}
    """Saved values that differ from those that the user was shown, by field, for values longer than a sentence."""
    service_fields: ClassVar[Mapping[str, str]] = {}
    notes: ClassVar[Mapping[str, str]] = {}
    focuses: bool = True

    def __init__(self, data: QueryDict | None = None, *, initial: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, initial=dict(initial or {}), auto_id="%s", label_suffix="")

    @property
    def focused(self) -> str:
        """The field with the focus: the first field with an error, otherwise the first editable field."""
        if self.errors:
            return next((name for name in self.fields if name in self.errors), "")
        visible = (name for name, field in self.fields.items() if not field.widget.is_hidden)
        return next(visible, "") if self.focuses else ""

    def offer(self, name: str, choices: Choices, *, nothing: str = "There is nothing to choose.") -> None:
        """Set the choices of a field; the service checks whether a choice is allowed. Without choices, ``nothing`` is
        shown instead.
        """
        field = self.fields[name]
        offered = cast("forms.Select", field.widget).choices = list(choices)
        if not offered:
            field.help_text = nothing

    @property
    def lacks_choices(self) -> bool:
        """Whether a required field offers nothing to choose, so that the form cannot be sent."""
        return any(each.field.required and each.lacks_choices for each in cast("Iterable[BoundField]", self))

    def refuse(self, error: NovellaError) -> None:
        """Show an error of a service at its field, or above the form if it has none."""
        name = self.service_fields.get(error.field or "", error.field)
        self.add_error(name if name in self.fields else None, self.message_of(error))

    def message_of(self, error: NovellaError) -> str:
        """Return the message of an error with the labels of the page."""
        return plain(error.message, self.labels())

    def labels(self) -> dict[str, str]:
        """Return field name → label, under the names of the form and of the service."""
        labels = {name: str(self[name].label) for name in self.fields}
        return labels | {theirs: labels[own] for theirs, own in self.service_fields.items() if own in labels}


class WholeNumberField(forms.IntegerField):
    """A whole number in the range of a database column, in the digits 0 to 9."""

    default_error_messages: ClassVar[dict[str, Any]] = {
        "required": "Enter a whole number.",  # browsers send an empty value if the input is not a number
        "min_value": "It must be at least %(limit_value)s.",
        "max_value": "It must be at most %(limit_value)s.",
    }

    def __init__(self, *, min_value: int = 0, max_value: int = MAX_INTEGER, **kwargs: Any) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **kwargs)

    def to_python(self, value: Any) -> int | None:
        if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]*", value.strip()):
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        return super().to_python(value)


class OfferedField(forms.CharField):
    """One of the offered choices; the service rejects any other value."""

    widget = forms.RadioSelect


class OfferedListField(forms.MultipleChoiceField):
    """Several of the offered choices; the service rejects any other value."""

    widget = forms.CheckboxSelectMultiple

    def valid_value(self, value: Any) -> bool:
        return True


def metadata_of(text: str) -> dict[str, str]:
    """Return the metadata of a text with one key=value on each line. Raises ValidationError."""
    metadata: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        key, equals, value = line.partition("=")
        if line.strip() and not equals:
            raise ValidationError(f"Line {number} has no '='. Write one key=value on each line.")
        if equals:
            metadata[key.strip()] = value.strip()
    return metadata
