"""Formatting of values in templates."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from django import template
from django.urls import reverse
from django.utils.safestring import SafeString

from portal.common import statuses
from portal.dashboard.graphs.bars import Bar
from portal.dashboard.words import wording
from portal.dashboard.words.markup import format_html, join
from portal.dashboard.words.plain import plain
from provisioning.network.selectors.instances import PortAddress

register = template.Library()


@register.simple_tag
@cache
def icon(name: str, extra: str = "") -> SafeString:
    """Render an icon of bootstrap-icons. Screen readers ignore it, because the text next to it has its meaning."""
    return format_html('<i class="bi bi-{}{}" aria-hidden="true"></i>', name, f" {extra}" if extra else "")


@register.filter(name="plain")
def plain_text(value: str | None) -> str:
    """Return a sentence of a service in the terms of the pages: *instance* instead of the API's *server*."""
    return plain(value or "")


@register.filter
def mib(value: int | None) -> str:
    """Format an amount of memory in MiB."""
    return wording.mebibytes(value or 0)


@register.filter
def size(value: int | None) -> str:
    """Format a number of bytes."""
    return "-" if value is None else wording.size_in_bytes(value)


@register.filter
def duration(value: float | None) -> str:
    """Format seconds in the shortest readable form."""
    return "" if value is None else wording.duration(value)


@register.filter
def epoch(value: datetime | None) -> str:
    """Format a time as seconds since 1970, for running times in clock.js."""
    return "" if value is None else f"{value.timestamp():.3f}"


@register.simple_tag
def ago(value: datetime) -> SafeString:
    """Render the age of a time; clock.js keeps it up to date and adds the time as title."""
    return format_html(
        '<time datetime="{}" data-format="age">{}</time>', value.isoformat(timespec="seconds"), wording.age(value)
    )


@register.simple_tag
def when(value: datetime | None, to: str = "minutes", without: str = "") -> SafeString | str:
    """Render a time, to the minutes or seconds, in UTC, which clock.js converts into the browser's time zone.

    ``without`` is the text for None.
    """
    if value is None:
        return without
    text = wording.moment(value, to)
    return format_html(
        '<time datetime="{}" title="{}" data-moment="{}" class="num">{}</time>', value.isoformat(), text, to, text
    )


@register.filter
def item(mapping: Mapping[Any, Any], key: Any) -> Any:
    """Return a value of a mapping, or None."""
    return mapping.get(key)


@register.simple_tag
@cache
def status(value: statuses.Status) -> SafeString:
    """Render a status: icon, colour and label. In Python, as a template would be slow in long lists."""
    sign = icon(value.icon, "spin" if value.tone == "busy" else "")
    return format_html('<span class="status {}">{}{}</span>', value.tone, sign, value.word)


@register.simple_tag
def meter(bar: Bar, *, bare: bool = False) -> SafeString:
    """Render a resource: in use, reserved, and the limit as the whole bar; ``bare``: without its name. In Python, as a
    template would be slow in long lists.
    """
    of = "\N{MIDDLE DOT} no limit" if bar.unlimited else f"of {bar.limit_text}"
    tone = bar.tone
    reserved = note = SafeString("")
    if bar.reserved:
        reserved = format_html(_RESERVED, tone, bar.in_use_width, bar.reserved_width)
        note = SafeString("") if bare else format_html(_RESERVED_NOTE, bar.reserved_text)
    label = SafeString("") if bare else format_html("<span>{}</span>", bar.label)
    strength = "meter-over" if bar.over else "muted"
    return format_html(_METER, bar.text, label, strength, bar.used_text, of, tone, bar.in_use_width, reserved, note)


_METER = (
    '<div class="meter" role="img" aria-label="{0}" title="{0}"><div class="meter-line" aria-hidden="true">{1}'
    '<span class="num {2}">{3} <span class="faint">{4}</span></span></div><svg aria-hidden="true">'
    '<rect class="track" width="100%" height="100%"></rect><rect class="{5}" width="{6}%" height="100%"></rect>{7}'
    "</svg>{8}</div>"
)
_RESERVED = '<rect class="{} reserved" x="{}%" width="{}%" height="100%"></rect>'
_RESERVED_NOTE = '<div class="faint xsmall num" aria-hidden="true">{} reserved for what is being created</div>'


@register.simple_tag
def addresses(port_addresses: Sequence[PortAddress]) -> SafeString:
    """Render an instance's addresses in a table row, each followed by its floating IPs."""
    lines = [
        (kind, address)
        for entry in port_addresses
        for kind, address in ((_FIXED, entry.address), *((_FLOATING, each) for each in entry.floating))
    ]
    return join("<br>", (format_html(kind, address) for kind, address in lines)) or _NO_ADDRESS


_FIXED = '<span class="mono text-nowrap">{}</span>'
_FLOATING = '<span class="mono text-nowrap" title="Floating IP">{}</span> <span class="faint xsmall">floating</span>'
_NO_ADDRESS = SafeString('<span class="faint">\N{EN DASH}</span>')


@register.simple_tag
def columns(*names: str) -> SafeString:
    """Render the column headings of a table; the last one, Actions, is only for screen readers."""
    return join("\n", map(_heading, names))


def _heading(name: str) -> SafeString:
    if name == "Actions":
        return SafeString('<th scope="col" class="end"><span class="visually-hidden">Actions</span></th>')
    return format_html('<th scope="col">{}</th>', name)


@register.inclusion_tag("dashboard/_row_button.html")
def row_button(
    sign: str,
    title: str,
    whose: object,
    to: str,
    *ids: object,
    label: str = "",
    query: str = "",
    asks: bool = True,
    test: str = "",
) -> dict[str, object]:
    """Render a row's action button; ``label`` contains the row's name as ``{}``, ``to`` is the URL name for ``ids``, or
    an address.

    With ``asks`` it opens a confirmation in the dialog, otherwise it is a link.
    """
    named = (label or f"{title} {{}}").format(whose)
    return {"sign": sign, "title": title, "label": named, "to": _address(to, ids, query), "asks": asks, "test": test}


@register.inclusion_tag("dashboard/_ask_button.html")
def ask_button(
    sign: str, label: str, to: str, *ids: object, danger: bool = False, small: bool = False
) -> dict[str, object]:
    """Render a button that opens a confirmation in the dialog; ``to`` is the URL name for ``ids``."""
    return {"sign": sign, "label": label, "to": _address(to, ids), "danger": danger, "small": small}


@register.filter
def steps_done(steps: Sequence[Any]) -> int:
    return sum(1 for step in steps if step.state == "done")


def _address(name: str, ids: tuple[object, ...], query: str = "") -> str:
    address = reverse(name, args=ids) if ":" in name else name
    return address + (f"?{query}" if query else "")
