"""Each function of the product whose statements depend on the database is run on PostgreSQL at landing."""

from __future__ import annotations

import re

from tests.support import statements
from tests.support.statements import ADVICE, CHECKOUT, several


def test_every_such_function_is_run_on_postgresql() -> None:
    there, known = statements.functions(), set().union(*statements.listed().values())
    assert len(there) > 100
    assert there <= known, f"No test at landing runs {several(there - known)} on PostgreSQL: {ADVICE}"
    assert known <= there, f"tests/postgresql.txt names what makes no such statement: {several(known - there)}"


def test_the_tests_that_the_file_names_are_there() -> None:
    for test in statements.listed():
        path, _, name = test.partition("::")
        function = name.rpartition("::")[2].partition("[")[0]
        assert re.search(rf"def {function}\(", (CHECKOUT / path).read_text()), test
        assert "postgresql" in test.partition("[")[2]


def test_functions_are_found_by_their_outermost_name() -> None:
    text = "\n".join(
        [
            "class Rows:",
            "    def lock(",
            "        self,",
            "    ) -> None:",
            "        def inner():",
            "            self.rows.select_for_update()",
            "        inner()",
            "    kept = rows.select_for_update()",
            "async def write():",
            "    rows.bulk_create([], ignore_conflicts=True)",
        ]
    )
    assert list(statements._making(text)) == ["Rows.lock", "write"]
