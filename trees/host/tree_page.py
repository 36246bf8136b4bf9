"""``TreePage``: the method of a ``Tree`` that opens its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from actors.runtime.system import System
from trees.ha.roles import Leadership
from trees.host.tree_source import TreeSource
from trees.observe.operator_events import PageFailed
from trees.observe.web.opening import open_page, require_web
from trees.observe.web.web_settings import HOST, PORT, Web

if TYPE_CHECKING:
    from trees.observe.alert_notifier import AlertNotifier
    from trees.observe.web.web_server import WebServer


class TreePage:
    """The part of a ``Tree`` that shows it to browsers."""

    _system: System
    _leadership: Leadership
    _closing: list[Callable[[], object]]
    _notifiers: list[AlertNotifier]
    _pages: list[WebServer]
    """Pages that were opened, in order."""

    @property
    def page(self) -> WebServer | None:
        """The page that was opened last, with ``start(..., web=)`` or with ``serve``; None: none was."""
        return self._pages[-1] if self._pages else None

    def serve(
        self,
        port: int = PORT,
        host: str = HOST,
        token: str | None = None,
        content: bool | None = None,
        names: Sequence[str] = (),
    ) -> WebServer:
        """Open the page of this tree; the link to it is ``.url`` of what is returned, and ``.stop()`` closes it.

        It shows the tree, its tasks and its questions, live, and takes the acts of a person: answer, cancel, restart,
        terminate, unpark. It runs on a thread of its own, which the tree does not depend on, and ends with the tree.
        Needs the extra ``web``.

        Args:
            port: 0: any that is free.
            host: only this machine can reach ``127.0.0.1``. With another one whoever looks needs the token, too.
            token: whoever acts needs it. ``None``: a random one.
            content: goals, questions, inputs and results are shown to whoever has the token. ``True``: also to those
                who look without it, at a loopback address. ``False``: to nobody.
            names: further names of hosts under which a proxy or a DNS server leads here. With one, looking needs the
                token as well.

        Raises:
            ConfigError: an argument is wrong, or the extra is not installed.
            WebError: its port is taken, or its address is none of this machine's.
            TreeDownError: the whole tree is down.
        """
        return self.serve_page(Web(port=port, host=host, token=token, content=content, names=names))

    def serve_page(self, settings: Web) -> WebServer:
        """Do this with a ``Web``."""
        system = self._system
        if system.is_down:
            raise system.down_error(system.root_path)
        require_web()

        def failed(error: BaseException, again_in_s: float) -> None:
            system.publish(PageFailed(system.root_path, error, again_in_s))

        source = TreeSource(system, self._leadership, self._notifiers, content=settings.content is not False)
        try:
            page = open_page(source, settings, failed, source.without_content() if settings.content is None else None)
        except BaseException:
            source.close()
            raise
        self._pages.append(page)
        self._closing.append(page.stop)
        system.ended.when_done(page.end)
        return page
