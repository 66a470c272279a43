"""Loads templates without their indentation, which was a third of the bytes of a long list.

The indentation is removed once, when a template is compiled. Line breaks are kept, so that error messages have the
right lines.
"""

import re

from django.template.base import Origin
from django.template.loaders.filesystem import Loader

_INDENTATION = re.compile(r"^[ \t]+|[ \t]+$", re.MULTILINE)
_KEEPS_BLANKS = re.compile(r"<(pre|textarea|script)\b", re.IGNORECASE)


class LeanFilesystemLoader(Loader):
    """Strips each line of an HTML template, except in templates with whitespace-sensitive elements."""

    def get_contents(self, origin: Origin) -> str:
        text = str(super().get_contents(origin))
        if not str(origin.template_name).endswith(".html") or _KEEPS_BLANKS.search(text):
            return text
        return _INDENTATION.sub("", text)
