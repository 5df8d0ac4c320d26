"""Which URLs of the server belong to bulk exports."""

STATUS_PREFIX = "$export/"
"""What the paths of running and finished exports, and of their files, begin with."""

KICK_OFF = "$export"


def is_of_started_export(path: str) -> bool:
    """Whether a path is the status of an export, or a file of it."""
    return path.startswith(STATUS_PREFIX)


def is_export(path: str) -> bool:
    """Whether a path starts an export, or belongs to one."""
    return is_of_started_export(path) or path.rpartition("/")[2] == KICK_OFF
