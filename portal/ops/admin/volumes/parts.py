"""Common parts of the block storage pages."""

from collections.abc import Mapping
from typing import Any

from django import forms

from portal.ops.admin.owned import Owned

MAX_TEXT = 255


class OfVolumes(Owned):
    """Records of block storage of all projects; keys and connections are hidden."""

    rules = {"view": "volume_extension:volume_host_attribute"}
    ordering = ("-created_at", "id")


class TextsField(forms.JSONField):
    """Text keys and values, as JSON."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, initial=dict, widget=forms.Textarea({"rows": 4, "cols": 60}), **kwargs)

    def clean(self, value: Any) -> dict[str, str]:
        """Return the texts; a form error for any other value."""
        result = super().clean(value) or {}
        if not isinstance(result, dict) or not all(_is_text(key) and _is_text(item) for key, item in result.items()):
            raise forms.ValidationError(f"Every name and every value must be text of at most {MAX_TEXT} characters.")
        return result


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT and "\0" not in value


def differences(there: Mapping[str, str], expected: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the items to set, and the keys to remove."""
    changed = {key: value for key, value in expected.items() if there.get(key) != value}
    return changed, [key for key in there if key not in expected]


def progress_of(record: Any) -> str:
    """Format the progress of a copy of a volume or backup."""
    done, total = record.progress_bytes, record.progress_total
    return f"{done >> 20} of {total >> 20} MiB" if total else "-"
