"""The texts of the project, cut into passages: docstrings, messages, templates and Markdown."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

LEAST_WORDS = 2
"""The minimum number of words of a message; single words are names and keys."""

_Documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_COMMENT = re.compile(r"\{#.*?#\}|\{% comment.*?endcomment %\}|<!--.*?-->|<(script|style)\b.*?</\1>", re.DOTALL)
_TEMPLATE_COMMENT = re.compile(r"\{# ?(.*?) ?#\}")
_TAG_STRING = re.compile(r'"([^"]*)"')
_SHOWN_ATTRIBUTE = re.compile(r'\b(?:title|aria-label|placeholder|alt|hx-confirm)="([^"]+)"', re.DOTALL)
_ELEMENT = re.compile(r"""</?[a-zA-Z!](?:"[^"]*"|'[^']*'|[^'">])*>""", re.DOTALL)
_CODE = re.compile(r"``[^`]+``|`[^`]+`")
_QUOTED = re.compile(r"# quoted: \w")
"""A comment on the line of a message that has to have the words of another program."""


@dataclass(frozen=True)
class Passage:
    """A text for readers, with its file and first line."""

    path: str
    line: int
    text: str
    is_docstring: bool = False


def passages(path: str, source: str) -> Iterator[Passage]:
    """Split a file into passages. ``path`` is relative to the repository; its suffix selects the parser."""
    if path.endswith(".py"):
        yield from _python(path, source)
    elif path.startswith("templates/"):
        yield from _template(path, source)
    elif path.endswith(".md"):
        yield from _markdown(path, source)


def _python(path: str, source: str) -> Iterator[Passage]:
    tree = ast.parse(source)
    lines = source.splitlines()
    docstrings = _docstrings(tree)
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant | ast.JoinedStr) or id(node) in inner:
            continue
        text = _joined(node)
        if id(node) in docstrings:
            yield Passage(path, node.lineno, plain(text), is_docstring=True)
        elif len(text.split()) >= LEAST_WORDS and not _QUOTED.search(lines[node.lineno - 1]):
            yield Passage(path, node.lineno, plain(text))


def _docstrings(tree: ast.Module) -> set[int]:
    """Return the ids of the nodes of docstrings, including those after an assignment."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, _Documented):
            for before, statement in zip([None, *node.body], node.body, strict=False):
                if isinstance(statement, ast.Expr) and (
                    before is None or isinstance(before, ast.Assign | ast.AnnAssign)
                ):
                    found.add(id(statement.value))
    return found


def _joined(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def _template(path: str, source: str) -> Iterator[Passage]:
    for comment in _TEMPLATE_COMMENT.finditer(source):
        yield Passage(path, source.count("\n", 0, comment.start()) + 1, plain(comment[1]))
    source = _COMMENT.sub(_newlines, source)
    for tag in re.finditer(r"\{%.*?%\}", source, re.DOTALL):
        for text in filter(str.strip, _TAG_STRING.findall(tag[0])):
            yield Passage(path, source.count("\n", 0, tag.start()) + 1, text)
    source = re.sub(r"\{%.*?%\}", _newlines, re.sub(r"\{\{.*?\}\}", "{}", source, flags=re.DOTALL), flags=re.DOTALL)
    for shown in _SHOWN_ATTRIBUTE.finditer(source):
        yield Passage(path, source.count("\n", 0, shown.start()) + 1, plain(shown[1]))
    for number, line in enumerate(_ELEMENT.sub(lambda tag: _newlines(tag) or "\0", source).split("\n"), 1):
        for text in filter(str.strip, line.split("\0")):
            yield Passage(path, number, plain(text))


def _markdown(path: str, source: str) -> Iterator[Passage]:
    source = re.sub(r"^ *```.*?^ *```", _newlines, source, flags=re.DOTALL | re.MULTILINE)
    number = 1
    for paragraph in re.split(r"(\n(?=\s*\n|\s*[-*|#>] |\s*\d+\. |\|))", source):
        if paragraph.strip():
            start = number + paragraph[: len(paragraph) - len(paragraph.lstrip())].count("\n")
            for cell in paragraph.split("|") if paragraph.lstrip().startswith("|") else [paragraph]:
                yield Passage(path, start, plain(re.sub(r"^\s*(?:[-*#>]+|\d+\.) ", "", cell)))
        number += paragraph.count("\n")


def _newlines(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def plain(text: str) -> str:
    """Return the text on one line, without names in code quotes."""
    return " ".join(_CODE.sub("`…`", text).split())
