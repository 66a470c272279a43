"""Marks of the distributions on the cards of the catalogue: our own drawings, not the trademarks of the projects."""

from django.utils.html import format_html
from django.utils.safestring import SafeString

MARKS = {
    "almalinux": ("#0f4266", "M12 28C12 17 19 11 29 11c0 10-6 17-17 17zM12 28l9-9"),
    "alpine": ("#0d597f", "M20 9l8 10h-5l6 8H11l6-8h-5zM20 27v4"),
    "arch": ("#11698f", "M11 30V20a9 9 0 0 1 18 0v10M16.5 30v-9.5a3.5 3.5 0 0 1 7 0V30"),
    "cirros": ("#56697f", "M10 16h13a3.5 3.5 0 1 0-3.5-3.5M10 21h19M10 26h11a3.5 3.5 0 1 1-3.5 3.5"),
    "debian": ("#a80030", "M20 9c6 6 9 10 9 14a9 9 0 0 1-18 0c0-4 3-8 9-14z"),
    "fedora": ("#294172", "M20 9l6 11-6 11-6-11zM14 20h12"),
    "freebsd": ("#9c2321", "M20 10v20M13 11v6a7 7 0 0 0 14 0v-6M15 30h10"),
    "opensuse": ("#3f6f0d", "M9 16c4-5 7-5 11 0s7 5 11 0M9 25c4-5 7-5 11 0s7 5 11 0"),
    "rocky": ("#08724f", "M10 29h6v-6h6v-6h6v-6"),
    "ubuntu": ("#b23a0e", "M9 28h22M13 28a7 7 0 0 1 14 0M20 12v4M10 17l2.5 2.5M30 17l-2.5 2.5"),
}
"""The image property ``os_distro`` → background colour, and lines on a square of 40."""
_DRAWN = (
    '<svg viewBox="0 0 40 40" width="40" height="40"><rect width="40" height="40" rx="9" fill="{}"/><path d="{}" '
    'fill="none" stroke="#fff" stroke-width="2.4" stroke-linecap="round" stroke-linejoin="round"/></svg>'
)


def mark_of(distro: str) -> SafeString:
    """Return the drawing for a distribution; empty for others."""
    drawing = MARKS.get(distro)
    return format_html(_DRAWN, *drawing) if drawing else SafeString("")
