"""The form that confirms an action on many resources."""

import json
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from portal.dashboard.forms import Form
from provisioning.batches.registry import BatchAction
from provisioning.batches.services import MOST_ITEMS


class IdsField(forms.CharField):
    """Ids as one hidden field with a JSON list, because the number of fields of a form is limited."""

    widget = forms.HiddenInput

    def to_python(self, value: Any) -> Any:
        try:
            found = json.loads(value or "[]")
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list) or len(found) > MOST_ITEMS or not all(isinstance(each, str) for each in found):
            raise ValidationError("The selection is invalid. Select again.")
        return [each.replace("\0", "")[:255] for each in found]

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(list(value or []), separators=(",", ":"))


class BatchForm(Form):
    """The selection, the action's argument, and ``key``, by which a form that is sent twice starts one batch."""

    confirmed = forms.CharField(initial="1", widget=forms.HiddenInput)
    key = forms.UUIDField(initial=uuid.uuid4, widget=forms.HiddenInput)
    chosen = IdsField()
    permanent = IdsField(required=False)

    def __init__(
        self,
        action: BatchAction,
        data: QueryDict | None = None,
        *,
        ids: Sequence[str] = (),
        permanent: Iterable[str] = (),
    ) -> None:
        super().__init__(data, initial={"chosen": list(ids), "permanent": list(permanent)})
        self.argument = action.argument
        if action.argument is not None:
            self.fields[action.argument.name] = forms.CharField(
                label=action.argument.label,
                help_text=action.argument.help,
                max_length=action.argument.longest,
                initial=action.argument.suggested(),
                required=not action.argument.optional,
                strip=True,
            )

    def arguments(self) -> dict[str, str]:
        return {self.argument.name: self.cleaned_data[self.argument.name]} if self.argument else {}
