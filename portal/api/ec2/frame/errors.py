"""Errors of requests as such, with EC2's codes (EC2 API reference, "Error codes")."""

from provisioning.common.errors import NovellaError


class Ec2Error(NovellaError):
    """An error that is raised with its EC2 code."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        """``code`` is a code of the reference (``InvalidParameterValue``); ``status`` is the HTTP status of the
        response.
        """
        super().__init__(message)
        self.ec2_code, self.status = code, status


def missing_parameter(name: str) -> Ec2Error:
    return Ec2Error("MissingParameter", f"The request must contain the parameter {name}")


def unknown_parameter(name: str) -> Ec2Error:
    return Ec2Error("UnknownParameter", f"The parameter {_cut(name)} is not recognized")


def invalid_value(name: str, value: object, why: str = "") -> Ec2Error:
    words = f"Value ({_cut(str(value))}) for parameter {_cut(name)} is invalid."
    return Ec2Error("InvalidParameterValue", f"{words} {why}".rstrip())


def malformed(why: str) -> Ec2Error:
    return Ec2Error("MalformedQueryString", why)


def combination(why: str) -> Ec2Error:
    return Ec2Error("InvalidParameterCombination", why)


def unsupported(why: str) -> Ec2Error:
    return Ec2Error("UnsupportedOperation", why)


def not_found(code: str, ids: object) -> Ec2Error:
    """Return the error for unknown ids; ``code`` is a code such as ``InvalidVolume.NotFound``, ``ids`` one id or
    several.
    """
    several = not isinstance(ids, str)
    names = ", ".join(map(str, ids)) if isinstance(ids, list | tuple | set | frozenset) else str(ids)
    begin = "The IDs" if several else "The ID"
    return Ec2Error(code, f"{begin} '{_cut(names, 400)}' {'do' if several else 'does'} not exist")


def _cut(text: str, longest: int = 120) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
