"""Templates are compiled without their indentation, except where blanks count."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.template import Context, Engine

LOADER = "portal.common.front_end.template_loaders.LeanFilesystemLoader"


def rendered(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return Engine(dirs=[str(folder)], loaders=[LOADER]).get_template(name).render(Context())


def test_indentation_is_left_out_and_lines_stay(tmp_path: Path) -> None:
    assert rendered(tmp_path, "a.html", "<ul>\n    <li>a b</li>  \n\t</ul>\n") == "<ul>\n<li>a b</li>\n</ul>\n"


@pytest.mark.parametrize("tag", ["pre", "textarea", "script"])
def test_blanks_that_count_are_kept(tmp_path: Path, tag: str) -> None:
    text = f"<{tag} class='x'>\n    a\n</{tag}>\n"
    assert rendered(tmp_path, "a.html", text) == text


def test_lines_with_tags_only_leave_no_line(tmp_path: Path) -> None:
    (tmp_path / "part.html").write_text("{# A part. #}\n<i></i>\n")
    text = "<p>\n{% if 1 %}{# yes #}\n  a\n{% else %}\n  b\n{% endif %}\n{% include 'part.html' %}\n</p>\n"
    assert rendered(tmp_path, "a.html", text) == "<p>\na\n<i></i>\n</p>\n"


def test_a_script_with_an_address_has_no_blanks_that_count(tmp_path: Path) -> None:
    text = "<head>\n    <script defer src='a.js'></script>\n</head>\n"
    assert rendered(tmp_path, "a.html", text) == "<head>\n<script defer src='a.js'></script>\n</head>\n"


def test_other_files_are_kept_as_they_are(tmp_path: Path) -> None:
    assert rendered(tmp_path, "a.txt", "    a\n") == "    a\n"
