"""The mark of a statement that is sent again and again."""


class Repeated(str):
    """The text of a statement that is sent often, with other values each time.

    PostgreSQL keeps its plan (``provisioning.common.postgresql``), so the server has to find out the type of each
    parameter from its place in the text; SQLite's driver keeps every statement, and takes it for any other text.
    """

    __slots__ = ()
