"""Loads templates without their indentation, which was a third of the bytes of a long list.

It is removed once, when a template is compiled, and so are the lines that consist of tags without a text. With DEBUG
these are kept, so that error messages have the right lines.
"""

import re

from django.template.base import Origin
from django.template.loaders.filesystem import Loader

_INDENTATION = re.compile(r"^[ \t]+|[ \t]+$", re.MULTILINE)
_SILENT = re.compile(
    r"^((?:\{#.*?#\}"
    r"|\{% *(?:extends|include|load|if|elif|else|endif|for|empty|endfor|with|endwith|block|endblock)\b.*?%\})+)\n",
    re.MULTILINE,
)
"""A line with only comments and tags whose text, if any, ends with a line break of its own."""
_KEEPS_BLANKS = re.compile(r"<(?:pre|textarea|script(?![^>]* src=))\b", re.IGNORECASE)


class LeanFilesystemLoader(Loader):
    """Strips each line of an HTML template, except in templates with whitespace-sensitive elements."""

    def get_contents(self, origin: Origin) -> str:
        text = str(super().get_contents(origin))
        if not str(origin.template_name).endswith(".html") or _KEEPS_BLANKS.search(text):
            return text
        lean = _INDENTATION.sub("", text)
        return lean if self.engine.debug else _SILENT.sub(r"\1", lean)
