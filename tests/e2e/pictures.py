"""Pictures of pages. All are in test-results/pictures; ``WRITE_PICTURES=1`` also renews those that the documentation
shows (docs/images).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from playwright.sync_api import Locator, Page

from tests.support.one_machine import CHECKOUT

TAKEN = CHECKOUT / "test-results/pictures"
SHOWN = CHECKOUT / "docs/images"
PAGES = (CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md")))


def picture(page: Page, name: str, *, full_page: bool = False, hidden: Sequence[Locator] = ()) -> None:
    """Take a picture, without the parts that are ``hidden``."""
    file = TAKEN / f"{name}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=file, full_page=full_page, animations="disabled", mask=hidden, mask_color="#8a95a6")
    if os.environ.get("WRITE_PICTURES") and any(f"images/{file.name}" in each.read_text() for each in PAGES):
        (SHOWN / file.name).write_bytes(file.read_bytes())
