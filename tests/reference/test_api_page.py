"""docs/api.md has every call of the references and of the routes; ``WRITE_PAGES=1`` generates it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.reference import service_rows
from tests.reference.api_page import page
from tests.reference.calls import Call, read, served, written
from tests.reference.ec2_rows import Ec2
from tests.reference.operations import Operation
from tests.reference.rows import DIFFERS, NOT_THERE, OWN, THERE, NotesError
from tests.reference.service_rows import Service

V2 = "/image/v2"
COUNTS = re.compile(r"^(\d+) (?:calls|actions) of .*: (\d+) are supported, (\d+) with a difference", re.MULTILINE)


@pytest.mark.slow
def test_the_page_says_what_is() -> None:
    path = Path(__file__).resolve().parents[2] / "docs/api.md"
    if os.environ.get("WRITE_PAGES"):
        path.write_text(page())
    assert path.read_text() == page(), "edit tests/reference/api_notes.md and run this test with WRITE_PAGES=1"


@pytest.mark.slow
def test_a_cell_can_be_read_at_a_glance() -> None:
    cells = [cell for line in page().splitlines() if line.startswith("|") for cell in line.split("|")]
    assert not [cell for cell in cells if len(cell.split()) > 80], "move details below the table"


def test_readme_has_the_numbers_of_the_page() -> None:
    base = Path(__file__).resolve().parents[2]
    counts = [
        f"{int(there) + int(differs)} of {total}"
        for total, there, differs in COUNTS.findall((base / "docs/api.md").read_text())
    ]
    assert len(counts) == 6
    [row] = [line for line in (base / "README.md").read_text().splitlines() if line.startswith("| [calls of")]
    assert re.findall(r"\d+ of \d+", row) == counts


def image(*rows: list[str]) -> Service:
    """The Image API with these rows of notes."""
    service = Service("image")
    for row in rows:
        service.add(row)
    return service


@pytest.fixture
def _reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference has two sections, one of them unsupported; the routes have one more call."""
    there = [("GET", "/v2/images"), ("POST", "/v2/images"), ("DELETE", "/v2/images/{image_id}")]
    missing = [("POST", "/v2/images/{image_id}/burn"), ("GET", "/v2/ashes")]
    result = [Operation("image", "Images", *each, None, None, "") for each in there]
    result += [Operation("image", "Ashes", *each, None, "404", "") for each in missing]
    monkeypatch.setattr(service_rows, "operations", lambda _: result)
    routes = [Call(method, f"/image{path}") for method, path in (*there, ("PATCH", "/v2/images/{id}"))]
    monkeypatch.setattr(service_rows, "served", lambda _: routes)


ONE, ASHES = ["`PATCH /images/{id}`", "one"], ["Ashes", "", "nothing burns"]


@pytest.mark.usefixtures("_reference")
def test_a_row_is_there_differs_or_is_not_there() -> None:
    service = image(ONE, ASHES, ["`GET`, `POST /images`", "all", "without another's"])
    service.finish()
    result = {f"{call.method} {call.path}": row.state for row in service.rows for call in row.calls}
    assert result == {
        f"GET {V2}/images": DIFFERS,
        f"POST {V2}/images": DIFFERS,
        f"DELETE {V2}/images/{{image_id}}": THERE,
        f"PATCH {V2}/images/{{id}}": THERE,
        f"POST {V2}/images/{{image_id}}/burn": NOT_THERE,
        f"GET {V2}/ashes": NOT_THERE,
    }
    assert service.summary().startswith("5 calls of the reference: 1 are supported, 2 with a difference, 2 are")


@pytest.mark.usefixtures("_reference")
@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([ASHES], r"in no row: .*PATCH.*/images/"),
        ([ONE], "no reason why it is not supported: `POST"),
        ([ONE, ASHES, ["`GET /ashes`", "x"]], "no reason why it is not supported: `GET /ashes`"),
        ([ONE, ASHES, ["`GET /images`, `GET /ashes`", "x", "y"]], "split the row"),
        ([ONE, ASHES, ["`GET /images`", OWN]], "not Novella's own"),
        ([ONE, ASHES, ["`GET /images/{id}/nothing`", "x"]], "neither answered nor in the reference"),
        ([ONE, ASHES, ["`GET /images`", "x"], ["`GET`, `POST /images`", "y"]], "in two rows: .*GET"),
        ([ONE, ["Smoke", "x"]], "Smoke is not a section"),
    ],
)
def test_what_is_wrong_with_the_notes_is_reported(rows: list[list[str]], text: str) -> None:
    with pytest.raises(NotesError, match=text):
        image(*rows).finish()


def test_what_is_read_of_the_routes() -> None:
    result = set(served("compute"))
    assert Call("GET", "/compute/v2.1/servers/{server_id}") in result
    assert Call("POST", "/compute/v2.1/servers/{server_id}/action", "trim") in result


@pytest.mark.parametrize(
    "cell",
    [
        "`GET`, `POST /images`, `GET`, `DELETE /images/{id}`",
        "`POST /images/{id}/action` with `one`, `two`",
        "`GET /image`",
    ],
)
def test_cells_are_read_as_they_are_written(cell: str) -> None:
    assert written(read(cell, "image"), "image") == cell


def test_actions_of_ec2_are_there_or_say_why_not() -> None:
    ec2 = Ec2()
    with pytest.raises(NotesError, match="no reason why it is not supported"):
        ec2.finish()
    ec2 = Ec2()
    ec2.add(["`*`", "", "no"])
    ec2.finish()
    result = {row.cell: row.state for row in ec2.rows}
    assert result.keys() >= {f"`{name}`" for name in ec2.there}
    assert list(result.values()).count(NOT_THERE) == 1
    ec2 = Ec2()
    ec2.add(["`RunPictures`", "x"])
    with pytest.raises(NotesError, match="no action has this name"):
        ec2.finish()
