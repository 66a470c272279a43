"""Edits of one record that are open at the same time.

A form that edits a record carries a digest of each value that it was shown with. If a value has changed when the form
is submitted, nothing is saved: the form shows the new value beside the user's own, and saves at the next attempt.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from django import forms
from django.core.cache import caches
from django.forms.widgets import ChoiceWidget
from django.http import QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.dashboard.frame.forms import Form
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext

SHOWN = "shown"
"""Name of the hidden input with the digests."""
CACHE = "edits"
REMEMBERED = 86_400
"""Seconds for which the last editors of a record are known."""
LONGEST = 120
"""Characters of a value within a sentence; a longer one is shown below it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The digests of the values that a form was shown with, by field; ``at``: seconds since the epoch."""

    at: float = 0.0
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Collision:
    """The result of a comparison: the submitted data, where fields that the user did not change have the saved values,
    and a message for each field whose value has changed.
    """

    data: QueryDict
    messages: Mapping[str, str]
    saved: Mapping[str, str]
    """Saved values that are too long for the message."""


def shown_input(form: Form) -> SafeString:
    """Return the hidden input for the values of the form's record."""
    digests = {name: _digest(_saved(form, name)) for name in _compared(form)}
    return _input(json.dumps({"at": int(time.time()), "fields": digests}, separators=(",", ":")))


def submitted_input(data: QueryDict) -> SafeString:
    """Return the hidden input with its submitted value, for a form that is shown again without a comparison."""
    return _input(data.get(SHOWN, ""))


def _input(value: str) -> SafeString:
    return format_html('<input type="hidden" name="{}" value="{}">', SHOWN, value)


def read_shown(data: QueryDict) -> Shown:
    """Return the submitted digests; none for a request that was not sent by the form."""
    try:
        found = json.loads(data.get(SHOWN, ""))
        at, digests = float(found["at"]), found["fields"]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return Shown()
    return Shown(at, digests) if isinstance(digests, dict) else Shown()


def collision_of(form: Form, sent: QueryDict, record: str, context: RequestContext) -> Collision | None:
    """Compare a submitted form with the record. Return None if no value of the record has changed, or only to the
    submitted value.
    """
    shown, changed, lost = read_shown(sent), {}, []
    for name in _compared(form):
        saved, typed = _saved(form, name), _typed(form, name)
        if typed is None or name not in shown.digests or _digest(saved) == shown.digests[name] or saved == typed:
            continue
        changed[name] = saved
        if _digest(typed) == shown.digests[name]:
            lost.append(name)
    if not changed:
        return None
    keys = {name: _key(record, name, saved) for name, saved in changed.items()}
    data, editors = sent.copy(), caches[CACHE].get_many(keys.values())
    for name in lost:
        _take_over(form, name, data)
    texts = {name: _text(form, name) for name in changed}
    long = {name: text for name, text in texts.items() if len(text) > LONGEST or "\n" in text}
    messages = {}
    for name, text in texts.items():
        kept = name not in lost
        now = (
            (" to the text below" if kept else "") if name in long else f" to “{bdi(text)}”" if text else " to nothing"
        )
        end = " Save again to replace it with your input." if kept else ""
        who = _editor(editors.get(keys[name]), context, shown.at)
        messages[name] = f"{who}{now} since this page was opened.{end}"
    return Collision(data, messages, {name: text for name, text in long.items() if name not in lost})


def changes(form: Form, **values: Any) -> dict[str, Any]:
    """Return the values of the fields that the user has changed, by field; the values of all fields if the user has
    changed none.

    ``values``: values that differ from the cleaned ones.
    """
    every = {**form.cleaned_data, **values}
    changed = {
        name: every[name]
        for name in _compared(form)
        if name in every and _typed(form, name) not in {None, _saved(form, name)}
    }
    return changed or every


def remember(form: Form, record: str, context: RequestContext) -> list[str]:
    """Store who has changed which values of a record by saving its form, for the message to the next user.

    Called before the commit, so that a request that waits for it reads them. If another user has saved the same value
    since the form was opened, that user remains the editor. Returns the keys for ``forget``.
    """
    typed = {name: text for name in _compared(form) if (text := _typed(form, name)) is not None}
    entry = {"id": str(context.user_id), "name": context.user_name, "at": time.time()}
    keys = [_key(record, name, text) for name, text in typed.items() if text != _saved(form, name)]
    opened_at = read_shown(cast("QueryDict", form.data)).at
    earlier = caches[CACHE].get_many(keys)
    keys = [key for key in keys if not opened_at or key not in earlier or earlier[key]["at"] < opened_at]
    caches[CACHE].set_many(dict.fromkeys(keys, entry), REMEMBERED)
    return keys


def forget(keys: Iterable[str]) -> None:
    """Remove the entries of ``remember`` in a transaction that the database aborted."""
    caches[CACHE].delete_many(keys)


def _editor(entry: Mapping[str, Any] | None, context: RequestContext, since: float) -> str:
    """Return the beginning of a message: the user that saved this value of a field by the form after ``since``, unless
    it was changed in another way.
    """
    if entry is None or entry["at"] < since:
        return "This was changed"
    if entry["id"] == str(context.user_id):
        return "You changed this"
    return f"{bdi(entry['name'])} changed this"


def _key(record: str, name: str, value: str) -> str:
    """Return the cache's key of a field's value. Values that are saved at the same time have separate entries."""
    return hashlib.sha256(f"{record} {name} {_digest(value)}".encode()).hexdigest()


def _compared(form: Form) -> list[str]:
    return [name for name, each in form.fields.items() if not each.widget.is_hidden and not each.disabled]


def _saved(form: Form, name: str) -> str:
    bound = form[name]
    return _as_text(bound.field.prepare_value(bound.initial))


def _typed(form: Form, name: str) -> str | None:
    """Return the submitted value; None if the request lacks it."""
    bound = form[name]
    if bound.field.widget.value_omitted_from_data(form.data, form.files, bound.html_name):
        return None
    return _as_text(bound.data)


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else ""
    if isinstance(value, list | tuple | set | frozenset):
        return "\n".join(sorted(map(str, value)))
    return "" if value is None else str(value).replace("\r\n", "\n").replace("\r", "\n").strip()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _take_over(form: Form, name: str, data: QueryDict) -> None:
    """Replace a submitted value by the saved one."""
    bound = form[name]
    value = bound.field.prepare_value(bound.initial)
    if isinstance(value, list | tuple):
        data.setlist(bound.html_name, [str(each) for each in value])
    elif isinstance(value, bool):
        data.setlist(bound.html_name, ["on"] if value else [])
    else:
        data[bound.html_name] = "" if value is None else str(value)


def _text(form: Form, name: str) -> str:
    """Return the saved value as the page shows it: the labels of choices, and whether a box is checked."""
    bound = form[name]
    value = bound.field.prepare_value(bound.initial)
    if isinstance(bound.field.widget, forms.CheckboxInput):
        return "yes" if value else "no"
    if isinstance(bound.field.widget, ChoiceWidget):
        labels = {str(key): str(label) for key, label in bound.field.widget.choices}
        values = value if isinstance(value, list | tuple) else [value or ""]
        return ", ".join(labels.get(str(each), str(each)) for each in values)
    return _as_text(value)
