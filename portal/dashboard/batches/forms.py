"""The form that confirms an action on many resources."""

import json
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from portal.dashboard.frame.forms import Form, OfferedField
from provisioning.batches.kinds.declaration import BatchAction
from provisioning.batches.services import MOST_ITEMS
from provisioning.common.context import RequestContext


class IdsField(forms.CharField):
    """Ids as one hidden field with a JSON list, because the number of fields of a form is limited."""

    widget = forms.HiddenInput

    def to_python(self, value: Any) -> Any:
        try:
            ids = json.loads(value or "[]")
        except (ValueError, RecursionError):
            ids = None
        if not isinstance(ids, list) or len(ids) > MOST_ITEMS or not all(isinstance(each, str) for each in ids):
            raise ValidationError("The selection is invalid. Select again.")
        return [each.replace("\0", "")[:255] for each in ids]

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
        context: RequestContext,
        action: BatchAction,
        data: QueryDict | None = None,
        *,
        ids: Sequence[str] = (),
        permanent: Iterable[str] = (),
    ) -> None:
        super().__init__(data, initial={"chosen": list(ids), "permanent": list(permanent)})
        self.argument = argument = action.argument
        if argument is not None:
            self.fields[argument.name] = (forms.CharField if argument.choices is None else OfferedField)(
                label=argument.label,
                help_text=argument.help,
                max_length=argument.longest,
                initial=argument.suggested(),
                required=not argument.optional,
                strip=True,
            )
            if argument.choices is not None:
                self.offer(argument.name, argument.choices(context))

    def arguments(self) -> dict[str, str]:
        return {self.argument.name: self.cleaned_data[self.argument.name]} if self.argument else {}
