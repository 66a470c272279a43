"""The base of the dashboard's forms: one template draws every field, and a service's errors are shown at them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from django import forms
from django.core.exceptions import ValidationError
from django.forms.renderers import TemplatesSetting
from django.http import QueryDict

from portal.dashboard.plain import plain
from provisioning.common.errors import NovellaError
from provisioning.common.numbers import MAX_INTEGER


@dataclass(frozen=True, slots=True)
class ChoiceLabel:
    """How one choice among radio buttons or checkboxes is shown; ``template`` draws more of ``subject`` below it."""

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


class BoundField(forms.BoundField):
    """A field with the classes and attributes of the dashboard's design."""

    form: Form

    @property
    def note(self) -> str:
        """What stands beside the label: a unit, or that nothing need be typed."""
        typed = isinstance(self.field.widget, forms.TextInput | forms.EmailInput | forms.Textarea)
        return self.form.notes.get(self.name, "optional" if typed and not self.field.required else "")

    @property
    def is_checkbox(self) -> bool:
        """Whether the field is one box to tick; its label stands behind it."""
        return isinstance(self.field.widget, forms.CheckboxInput)

    def build_widget_attrs(self, attrs: dict[str, Any], widget: forms.Widget | None = None) -> dict[str, Any]:
        """Add classes and focus.  Choices have no ids: their labels are around them."""
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
    """Draws fields by the dashboard's template."""

    field_template_name = "dashboard/_field.html"
    bound_field_class = BoundField


class Form(forms.Form):
    """Base of the dashboard's forms.

    ``service_fields``: names of fields in the services' errors, where the form has others; ``notes``: what stands
    beside a label; ``focuses``: whether the page begins in the first field.
    """

    default_renderer = FormRenderer()
    service_fields: ClassVar[Mapping[str, str]] = {}
    notes: ClassVar[Mapping[str, str]] = {}
    focuses: ClassVar[bool] = True

    def __init__(self, data: QueryDict | None = None, *, initial: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, initial=dict(initial or {}), auto_id="%s", label_suffix="")

    @property
    def focused(self) -> str:
        """The field where the cursor goes: the first with an error, else the first that can be typed in."""
        if self.errors:
            return next((name for name in self.fields if name in self.errors), "")
        visible = (name for name, field in self.fields.items() if not field.widget.is_hidden)
        return next(visible, "") if self.focuses else ""

    def offer(self, name: str, choices: Choices) -> None:
        """Set what a field offers to choose from; whether a choice is allowed is for the service to say."""
        cast("forms.Select", self.fields[name].widget).choices = list(choices)

    def refuse(self, error: NovellaError) -> None:
        """Say at its field what a service refuses; above the form when it concerns no field."""
        name = self.service_fields.get(error.field or "", error.field)
        self.add_error(name if name in self.fields else None, self.said(error))

    def said(self, error: NovellaError) -> str:
        """Return a refusal in the words of the page."""
        return plain(error.message, self.labels())

    def labels(self) -> dict[str, str]:
        """Return the label of each field, by the form's name of it and by the service's."""
        found = {name: str(self[name].label) for name in self.fields}
        return found | {theirs: found[own] for theirs, own in self.service_fields.items() if own in found}


class WholeNumberField(forms.IntegerField):
    """A number that a column holds, in the digits 0 to 9."""

    default_error_messages: ClassVar[dict[str, Any]] = {
        "required": "Enter a whole number.",  # a browser sends nothing of what is no number
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
    """One of the choices that a form offers; another is refused by the service that knows."""

    widget = forms.RadioSelect


class OfferedListField(forms.MultipleChoiceField):
    """Some of the choices that a form offers; others are refused by the service that knows."""

    widget = forms.CheckboxSelectMultiple

    def valid_value(self, value: Any) -> bool:
        return True
