"""The one exception that users see: a sentence that names the file and the remedy."""


class MixsegError(Exception):
    """Something the user can mend. The command line prints it without a traceback and exits with 2."""
