"""Refusals of a request: a status of HTTP, and one sentence that says what is wrong with it and what to do."""

from __future__ import annotations

from typing import Final


class Refusal(Exception):  # noqa: N818 - it is raised to end a request, and never leaves this room
    """End of a request that is not carried out."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(status, sentence)
        self.status = status
        self.sentence = sentence


NO_TOKEN: Final = (
    "This needs the token of the link that the program has printed: send it as 'Authorization: Bearer ...'."  # noqa: S105
)
WRONG_TOKEN: Final = (
    "This token is not the one that the program has printed; a tree that is started anew has a new one."  # noqa: S105
)
FOREIGN_HOST: Final = "The Host header names another host than this server; open the link that the program has printed."
FOREIGN_SITE: Final = "Another site has sent this request; only the page itself, or a program, may do so."
NOT_HERE: Final = "There is nothing at this address; /docs lists what there is."
OTHER_METHOD: Final = "This address takes another method; /docs lists what there is."
LONG_HEAD: Final = "The head of the request is longer than 16 KiB."
TOO_LARGE: Final = "The body of the request is longer than 64 KiB."
TOO_SLOW: Final = "The body of the request did not come within 10 s."
INTERNAL: Final = "The server has failed at this request, which is a fault of the library; its event is in the log."
