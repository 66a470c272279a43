"""HTML of cells. In Python, as templates would be slow in long lists."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.utils.safestring import SafeString

from portal.dashboard.frame import addresses
from portal.dashboard.templatetags import novella as tags
from portal.dashboard.words import markup, wording
from portal.dashboard.words.markup import format_html

ago, when, status, icon = tags.ago, tags.when, tags.status, tags.icon
url, join = addresses.address, markup.join
NOTHING = SafeString("")
LINE = SafeString("<br>")


def name(text: object, address: str = "", *, title: str = "", beside: Iterable[object] = (), below: object = "") -> str:
    """Render a name as link to ``address``, with tags ``beside`` and a description ``below``."""
    shown = format_html("<bdi>{}</bdi>", text)
    if address:
        shown = format_html('<a href="{}"{}>{}</a>', address, _title(title), shown)
    return join(" ", (shown, *(tag(each) for each in beside if each))) + sub(bdi(below))


def record(found: Any, url_name: str, *, beside: Iterable[object] = (), below: object = "") -> str:
    """Render the name of a record as link to its page; without a name the title is its id."""
    address = url(url_name, found.pk)
    return name(found, address, title="" if found.name else str(found.pk), beside=beside, below=below)


def sub(text: object, css: str = "") -> SafeString:
    """Render a second line; empty without text."""
    return format_html('<span class="{}">{}</span>', f"sub {css}".strip(), text) if text else NOTHING


def tag(text: object) -> SafeString:
    return format_html('<span class="tag">{}</span>', text)


def bdi(text: object) -> SafeString:
    return format_html("<bdi>{}</bdi>", text) if text else NOTHING


def link(text: object, url_name: str, *ids: object) -> SafeString:
    """Render a link to a page with a name as text."""
    return format_html('<a href="{}"><bdi>{}</bdi></a>', url(url_name, *ids), text)


def mono(text: object) -> SafeString:
    return format_html('<span class="mono">{}</span>', text) if text else NOTHING


def count(number: int, one: str) -> str:
    """Format a number with its noun: ``1 rule``, ``2 rules``."""
    return f"{number} {one}{'' if number == 1 else 's'}"


def gib(number: int) -> str:
    return f"{number}{wording.JOINED}GiB"


def progress(done: wording.Progress | None, what: object) -> SafeString:
    """Render the progress of a copy as a bar with its bytes; empty if it is unknown."""
    if done is None:
        return NOTHING
    value = NOTHING if done.percent is None else format_html(' value="{}"', done.percent)
    bar = format_html(
        '<progress class="upload-bar" max="100"{} aria-label="Progress of {}">{}</progress>', value, what, done.text
    )
    return bar + sub(done.text)


def copy(text: str, shown: object, what: str) -> SafeString:
    """Render a value with a button that copies ``text``."""
    return format_html(
        '<span class="copyable">{}<button type="button" class="copy" data-copy="{}" aria-label="Copy {}">{}</button>'
        "</span>",
        shown,
        text,
        what,
        icon("copy"),
    )


def button(
    sign: str,
    title: str,
    whose: object,
    to: str,
    *ids: object,
    label: str = "",
    query: str = "",
    asks: bool = True,
) -> SafeString:
    """Render a row's button, as the template tag ``row_button`` does."""
    return format_html(
        '<a class="btn btn-bare btn-sm btn-icon" href="{}"{} aria-label="{}" title="{}">{}</a>',
        address := url(to, *ids) + (f"?{query}" if query else ""),
        format_html(' hx-get="{}" hx-target="#dialog"', address) if asks else NOTHING,
        (label or f"{title} {{}}").format(whose),
        title,
        icon(sign),
    )


def day(value: datetime | None) -> SafeString | str:
    """Render a time to the minute."""
    return when(value)


def _title(text: str) -> SafeString:
    return format_html(' title="{}"', text) if text else NOTHING
