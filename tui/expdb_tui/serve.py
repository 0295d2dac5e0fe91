"""`expdb tui --serve`: the app in a browser, on this machine alone.

Invariant: only who has the address with its token reaches the app: other users of the machine can
open a port of 127.0.0.1 too, and the app can do what its user can.
"""

from __future__ import annotations

import hmac
import secrets
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from expdb.errors import BadInput

if TYPE_CHECKING:
    from aiohttp import web

HOST: Final = "127.0.0.1"
COOKIE: Final = "expdb-tui"
END_S: Final = 0.5
"""How long pages have to end by themselves."""
HEADERS: Final = {
    # The page of textual-serve names a font of another machine: it would learn who looks, and the
    # page would wait for it without a network.
    "Content-Security-Policy": (
        "default-src 'self' 'unsafe-inline' data:; connect-src 'self' ws://{host}:{port};"
        " frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def command_of(words: Sequence[str]) -> str:
    """Return the command line of one app; the server gives it to a shell, which it replaces."""
    return "exec " + shlex.join([sys.executable, "-m", "expdb.cli.main", *words])


def serve(words: Sequence[str], *, port: int, say: Callable[[str], None]) -> None:
    """Serve apps that are started with `words` until Ctrl-C; each page has its own.

    Raises:
        BadInput: the extra is not installed, or the port is taken.
    """
    try:
        from aiohttp import web
        from textual_serve.server import Server
    except ImportError:
        raise BadInput(
            "--serve needs textual-serve", hint="pip install 'expdb-ml[serve]'"
        ) from None
    token = secrets.token_urlsafe(24)
    headers = {name: text.format(host=HOST, port=port) for name, text in HEADERS.items()}

    @web.middleware
    async def guard(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        given = request.query.get("token", "") or request.cookies.get(COOKIE, "")
        if not hmac.compare_digest(given.encode(), token.encode()):
            raise web.HTTPForbidden(text="open the address that expdb tui --serve printed\n")
        response = await handler(request)
        if not response.prepared:
            response.headers.update(headers)
        if "token" in request.query and not response.prepared:
            response.set_cookie(COOKIE, token, httponly=True, samesite="Strict")
        return response

    class Guarded(Server):
        """The server, behind the token."""

        def initialize_logging(self) -> None:
            """Say nothing: what goes wrong in an app stands on its screen."""

        async def _make_app(self) -> web.Application:
            app = await super()._make_app()
            app.middlewares.append(guard)
            return app

        async def on_startup(self, app: web.Application) -> None:
            """Say nothing: nobody is listened to yet."""

        def serve(self, debug: bool = False) -> None:
            """Listen, then say where; an open page does not hold up the end."""
            web.run_app(
                self._make_app(),
                host=HOST,
                port=port,
                print=lambda _: say(f"http://{HOST}:{port}/?token={token}"),
                shutdown_timeout=END_S,
            )

    try:
        Guarded(command_of(words), host=HOST, port=port, title="expdb").serve()
    except OSError as error:
        raise BadInput(f"port {port} cannot be used: {error.strerror}", hint="--port N") from None
