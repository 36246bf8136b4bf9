"""Rules of access to the page: who may look, and who may act. Pure: headers go in, a refusal comes out, or nothing.

=================  ===================================================================================================
attack             answer
=================  ===================================================================================================
DNS rebinding      ``Host`` must name this server: its address, ``localhost``, the name of the machine, or one of the
                   names that its owner has given, else 400
cross-site POST    an act needs the token in a header, which no form can send; ``Origin`` and ``Sec-Fetch-Site`` of
                   another site are refused as well (403)
stolen look        no CORS header is ever sent; looking needs the token, or its cookie, unless the address is loopback
                   and has no further names: with one, a proxy may lead there from anywhere
guessed token      256 random bits, compared in constant time
=================  ===================================================================================================

A token that is sent and wrong is refused, also where none is needed; a cookie is not: it may be of an earlier tree.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Final

from trees.observe.web.refusals import FOREIGN_HOST, FOREIGN_SITE, NO_TOKEN, WRONG_TOKEN, Refusal

_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")
_OWN_SITES: Final = frozenset({"same-origin", "none"})


def is_loopback(host: str) -> bool:
    """True if only this machine can reach what listens there."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Access:
    """Access to one server."""

    host: str
    """Address that it listens at."""
    port: int
    machine: str
    """Name of this machine."""
    token: str = field(repr=False)
    names: frozenset[str] = frozenset()
    """Further names, in lower case, that lead here."""

    @property
    def is_open(self) -> bool:
        """True if looking needs no token."""
        return is_loopback(self.host) and not self.names

    @property
    def cookie(self) -> str:
        """Name of its cookie: cookies are shared by the ports of a host, and several trees may have a page each."""
        return f"regrow-{self.port}"

    def require_host(self, host: str | None) -> None:
        """Refuse a request that was meant for another host."""
        found = _HOST.fullmatch(host or "")
        name = found.group(1).strip("[]").rstrip(".").lower() if found is not None else None
        if name is None or not self._is_mine(name):
            raise Refusal(400, FOREIGN_HOST)

    def _is_mine(self, name: str) -> bool:
        if name == self.host.strip("[]").lower() or name in self.names:
            return True
        is_local = is_loopback(self.host)
        try:
            address = ipaddress.ip_address(name)
        except ValueError:  # a name, which whoever owns it may point to this address
            wide = not is_local and name in {self.machine.lower(), self.machine.partition(".")[0].lower()}
            return wide or (name == "localhost" and (is_local or _is_wildcard(self.host)))
        return address.is_loopback if is_local else _is_wildcard(self.host)

    def require_own_site(self, headers: Mapping[str, str]) -> None:
        """Refuse what a page of another site has sent."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        host = headers.get("host", "").lower()
        foreign = origin is not None and origin.lower().partition("://")[2] != host
        if foreign or (site is not None and site.lower() not in _OWN_SITES):
            raise Refusal(403, FOREIGN_SITE)

    def require_look(self, headers: Mapping[str, str], asked: str | None) -> bool:
        """Refuse who may not look; ``asked`` is the token of the query. Return whether there is a token."""
        given = sent_token(headers) if asked is None else asked
        if given is not None:
            self._require(given)
            return True
        has_cookie = self._is_token(self._cookie_of(headers.get("cookie", "")))
        if not (has_cookie or self.is_open):
            raise Refusal(401, NO_TOKEN)
        return has_cookie

    def require_act(self, headers: Mapping[str, str]) -> None:
        """Refuse who may not act: neither a cookie nor a query counts, which another site can have sent."""
        self.require_own_site(headers)
        given = sent_token(headers)
        if given is None:
            raise Refusal(401, NO_TOKEN)
        self._require(given)

    def _require(self, given: str) -> None:
        if not self._is_token(given):
            raise Refusal(401, WRONG_TOKEN)

    def _is_token(self, given: str) -> bool:
        """Compare in a time that tells nothing of the token."""
        return hmac.compare_digest(given.encode(errors="surrogatepass"), self.token.encode())

    def _cookie_of(self, text: str) -> str:
        try:
            found = SimpleCookie(text).get(self.cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value

    def set_cookie(self) -> str:
        """Return the header that has a browser keep the token: out of reach of scripts, and of other sites."""
        return f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"


def sent_token(headers: Mapping[str, str]) -> str | None:
    """Return the token of a request's headers; None: it has none."""
    bearer = headers.get("authorization")
    if bearer is None:
        return headers.get("x-regrow-token")
    scheme, _, token = bearer.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
