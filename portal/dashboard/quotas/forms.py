"""The form of the quota editor: for each resource the default, a limit, or no limit."""

from collections.abc import Collection, Mapping
from typing import Any

from django import forms
from django.http import QueryDict

from portal.dashboard.frame.forms import ChoiceLabel, Form, WholeNumberField
from portal.dashboard.graphs import bars
from portal.dashboard.words.plain import plain
from provisioning.common.errors import NovellaError
from provisioning.quotas.limits import UNLIMITED


class QuotaForm(Form):
    """Fields ``how-RESOURCE`` and ``limit-RESOURCE``; a resource that the form does not send keeps its limit."""

    focuses = False

    def __init__(
        self,
        data: QueryDict | None,
        resources: Collection[str],
        *,
        own: Mapping[str, int],
        defaults: Mapping[str, int],
        default_label: str,
    ) -> None:
        """``own``: the limits that are set, by resource; ``defaults``: the limits of all other resources."""
        super().__init__(data)
        self.resources = resources
        for name in resources:
            limit, default = own.get(name), defaults.get(name, UNLIMITED)
            choices = (
                ("default", ChoiceLabel(default_label, bars.limit_text(name, default))),
                ("limit", "Limit"),
                ("unlimited", "Unlimited"),
            )
            self.fields[f"how-{name}"] = forms.ChoiceField(
                label=bars.label_of(name),
                choices=choices,
                initial="default" if limit is None else "unlimited" if limit == UNLIMITED else "limit",
                required=False,
                widget=forms.RadioSelect,
            )
            unit = bars.unit_of(name)
            label = f"Limit of {bars.label_of(name)}" + (f" in {unit}" if unit else "")
            shown = default if limit is None or limit == UNLIMITED else limit
            self.fields[f"limit-{name}"] = WholeNumberField(
                label=label,
                initial=shown if shown >= 0 else "",
                required=False,
                widget=forms.TextInput({"class": "num", "inputmode": "numeric", "maxlength": 20, "aria-label": label}),
            )

    def clean(self) -> dict[str, Any]:
        """Require a number if a limit is chosen, and ignore it otherwise."""
        typed = super().clean() or self.cleaned_data
        for name in self.resources:
            field = f"limit-{name}"
            if typed.get(f"how-{name}") != "limit":
                self.errors.pop(field, None)
            elif field not in self.errors and typed[field] is None:
                self.add_error(field, self.fields[field].error_messages["invalid"])
        return typed

    def limits(self) -> dict[str, int | None]:
        """Return the limits by resource, None for the default."""
        typed = self.cleaned_data
        fixed: dict[str, int | None] = {"default": None, "unlimited": UNLIMITED}
        chosen = {name: typed[f"how-{name}"] for name in self.resources if typed[f"how-{name}"]}
        return {name: fixed.get(how, typed.get(f"limit-{name}")) for name, how in chosen.items()}

    def refuse(self, error: NovellaError) -> None:
        """Show the error of a resource at its limit."""
        self.add_error(f"limit-{error.field}" if error.field in self.resources else None, plain(error.message))
