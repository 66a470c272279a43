"""Validation of ``#cloud-config`` user data."""

import yaml

from provisioning.compute.launch.multipart import CLOUD_CONFIG


def problem_of(user_data: str) -> str:
    """Return the reason, with the line, why cloud-init would ignore the text; empty if it is valid or not
    ``#cloud-config``.

    Source: cloud-init, "User data formats": the first line is ``#cloud-config`` and the rest a YAML mapping.
    """
    if user_data.partition("\n")[0].strip() != CLOUD_CONFIG:
        return ""
    try:
        read = yaml.safe_load(user_data)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"Line {mark.line + 1}: " if mark else ""
        return f"{line}{error.problem or 'it is not valid YAML'}."
    except (
        yaml.YAMLError,
        ValueError,
        LookupError,
        AttributeError,
        RecursionError,
    ):  # PyYAML accepts the last four
        return "It is not valid YAML."
    if read is not None and not isinstance(read, dict):
        return "The text below #cloud-config has no keys with values, such as packages: [nginx]."
    return ""
