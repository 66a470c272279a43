"""How the dashboard words and draws values."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.dashboard import wording
from provisioning.network.selectors.instances import PortAddress

register = template.Library()


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """Draw an icon of bootstrap-icons; decoration only, the text beside it says what it means."""
    return format_html('<i class="bi bi-{}{}" aria-hidden="true"></i>', name, f" {extra}" if extra else "")


@register.filter
def mib(value: int | None) -> str:
    """Write an amount of memory given in MiB."""
    return wording.mebibytes(value or 0)


@register.filter
def size(value: int | None) -> str:
    """Write a number of bytes."""
    return "-" if value is None else wording.size_in_bytes(value)


@register.filter
def duration(value: float | None) -> str:
    """Write seconds as short as they can be read."""
    return "" if value is None else wording.duration(value)


@register.filter
def epoch(value: datetime | None) -> str:
    """Write a moment as seconds since 1970, for clock.js."""
    return "" if value is None else f"{value.timestamp():.3f}"


@register.simple_tag
def ago(value: datetime) -> SafeString:
    """Draw how long ago a moment is, with the moment as its title; clock.js keeps both true."""
    return format_html(
        '<time datetime="{}" title="{}" data-since="{}" data-format="age">{}</time>',
        value.isoformat(),
        wording.moment(value),
        epoch(value),
        wording.age(value),
    )


@register.simple_tag
def when(value: datetime | None, to: str = "minutes", without: str = "") -> SafeString | str:
    """Draw a moment, to the minutes or seconds: in UTC, which clock.js turns into the zone of the browser.

    ``without`` is written where there is none.
    """
    if value is None:
        return without
    said = wording.moment(value, to)
    return format_html(
        '<time datetime="{}" title="{}" data-moment="{}" class="num">{}</time>', value.isoformat(), said, to, said
    )


@register.filter
def item(mapping: Mapping[Any, Any], key: Any) -> Any:
    """Return one value of a mapping, None when it is not there."""
    return mapping.get(key)


@register.simple_tag
def status(value: wording.Status) -> SafeString:
    """Draw a state: an icon, a colour and its word.  Long lists do it in each row, where a template costs more."""
    sign = icon(value.icon, "spin" if value.tone == "busy" else "")
    return format_html('<span class="status {}">{}{}</span>', value.tone, sign, value.word)


@register.simple_tag
def addresses(found: Sequence[PortAddress]) -> SafeString:
    """Draw an instance's addresses in a row of a list, each with its floating IPs below it."""
    lines = [
        (kind, address)
        for entry in found
        for kind, address in ((_FIXED, entry.address), *((_FLOATING, each) for each in entry.floating))
    ]
    drawn = format_html_join(SafeString("<br>"), "{}", ((format_html(kind, address),) for kind, address in lines))
    return drawn or _NO_ADDRESS


_FIXED = '<span class="mono text-nowrap">{}</span>'
_FLOATING = '<span class="mono text-nowrap" title="Floating IP">{}</span> <span class="faint xsmall">floating</span>'
_NO_ADDRESS = SafeString('<span class="faint">\N{EN DASH}</span>')


@register.simple_tag
def columns(*names: str) -> SafeString:
    """Draw the heads of a table's columns; that of the last one, Actions, is only read out."""
    return format_html_join(
        "\n",
        '<th scope="col"{}>{}</th>',
        (
            (SafeString(' class="end"'), SafeString('<span class="visually-hidden">Actions</span>'))
            if name == "Actions"
            else ("", name)
            for name in names
        ),
    )


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
    """Draw what can be done to a row; ``label`` has the name of the row as ``{}``, ``to`` is the URL name for ``ids``,
    or an address.

    With ``asks`` it opens a question in the dialog, without it leads to a page.
    """
    said = (label or f"{title} {{}}").format(whose)
    return {"sign": sign, "title": title, "label": said, "to": _address(to, ids, query), "asks": asks, "test": test}


@register.inclusion_tag("dashboard/_ask_button.html")
def ask_button(
    sign: str, words: str, to: str, *ids: object, danger: bool = False, small: bool = False
) -> dict[str, object]:
    """Draw a button that asks in the dialog before anything is done; ``to`` is the URL name for ``ids``."""
    return {"sign": sign, "words": words, "to": _address(to, ids), "danger": danger, "small": small}


@register.filter
def steps_done(steps: list[Any]) -> int:
    return sum(1 for step in steps if step.state == "done")


def _address(name: str, ids: tuple[object, ...], query: str = "") -> str:
    address = reverse(name, args=ids) if ":" in name else name
    return address + (f"?{query}" if query else "")
