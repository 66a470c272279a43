"""The checks for those who change Novella: links of the pages, hooks and the site."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support import links

PAGE = """# A `page` of [links](b.md)
[good](b.md) [good](b.md#two-words) [good](#a-page-of-links) [good](https://example.org/x.md) `[code](none.md)`
[bad](none.md) ![bad](none.png) [bad](b.md#three) [bad](#four) [bad](folder)
```
[in a block](none.md)
```
`manage.py` `portal/none.py` `tests/support/links.py` `compute_agent/servers/NAME.py`
"""


def test_broken_links_are_found_with_line_and_reason(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "b.md").write_text("# One\n## Two words\n## One\n")
    (tmp_path / "a.md").write_text(PAGE)
    result = [line.partition(f"{tmp_path}/a.md:")[2] for line in links.broken(tmp_path / "a.md")]
    assert result == [
        "3: none.md: no such file",
        "3: none.png: no such file",
        "3: b.md#three: no such heading",
        "3: #four: no such heading",
        "3: folder: a folder; name a file in it",
        "7: portal/none.py: no such file",
    ]


def test_headings_have_the_anchors_of_code_hosts() -> None:
    text = '# Why is there no host for it?\n## One\n## One\n### `PUT /x`, and *y*: [z](z.md)\n<a id="here"></a>\n'
    assert links.anchors_in(text) == {"why-is-there-no-host-for-it", "one", "one-1", "put-x-and-y-z", "here"}


def test_the_links_of_all_pages_lead_somewhere(checkout: Path) -> None:
    pages = links.pages()
    assert {checkout / "README.md", checkout / "CONTRIBUTING.md", checkout / "docs/user-guide.md"} <= set(pages)
    assert [line for page in pages for line in links.broken(page)] == []


def test_each_page_has_a_place_in_the_navigation(checkout: Path) -> None:
    """Sphinx reports it, too, in ``bin/docs``; this costs nothing."""
    listed = set()
    for name in ("docs/README.md", "docs/decisions/README.md"):
        page = checkout / name
        targets = re.findall(r"^\* \[.+?\]\(([^):#]+\.md)\)", page.read_text(), re.MULTILINE)
        listed |= {(page.parent / target).resolve() for target in targets}
    pages = {*checkout.glob("*.md"), *checkout.glob("docs/**/*.md")}
    assert pages - listed == {checkout / "docs/README.md"}
    assert listed <= pages


def test_hooks_are_programs_of_the_checkout(checkout: Path) -> None:
    """Nothing is downloaded when they run."""
    result = yaml.safe_load((checkout / ".pre-commit-config.yaml").read_text())
    assert [repository["repo"] for repository in result["repos"]] == ["local"]
    hooks = result["repos"][0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    programs = [checkout / hook["entry"].split()[0] for hook in hooks]
    programs += (checkout / ".githooks").iterdir()
    assert [path for path in programs if not path.stat().st_mode & 0o111] == []
    assert {hook["stages"][0] for hook in hooks} == {path.name for path in (checkout / ".githooks").iterdir()}


@pytest.mark.slow
def test_git_asks_the_hook(tmp_path: Path, checkout: Path) -> None:
    """A commit with a bad subject is refused, one with a good subject is made."""

    def git(*words: str) -> int:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", tmp_path, *words]
        return subprocess.run(command, capture_output=True, check=False).returncode

    assert git("init", "-q") == 0
    (tmp_path / "tools").symlink_to(checkout / "tools")
    hook = tmp_path / ".git/hooks/commit-msg"
    hook.write_text((checkout / ".githooks/commit-msg").read_text())
    hook.chmod(0o755)
    assert git("commit", "-q", "--allow-empty", "-m", "network: Adding a gateway") == 1
    assert git("commit", "-q", "--allow-empty", "-m", "network: Add a gateway") == 0
