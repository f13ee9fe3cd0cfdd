"""Every error that a user can meet, by kind; the kind decides the exit code of the command line."""


class GirihError(Exception):
    """An expected failure. The message says what, where, by how much, and what to change."""

    exit_code = 1


class UsageError(GirihError):
    """Wrong usage or wrong input: the user can mend it."""

    exit_code = 2


class UnsupportedError(GirihError):
    """A well-formed input that this version cannot compile."""

    exit_code = 3


class InfeasibleError(GirihError):
    """No plan exists for this graph on this machine, or none was found: the message says which of the two, and names
    the operator and the shortfall."""

    exit_code = 4


class CheckError(GirihError):
    """An independent check found a plan, a program or a result to be wrong."""

    exit_code = 5
