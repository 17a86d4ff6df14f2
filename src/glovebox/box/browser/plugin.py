"""The browser as a plugin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from glovebox.box.browser.endpoints import browser_endpoints
from glovebox.box.browser.options import BrowserOptions
from glovebox.box.executor import Call, Handler
from glovebox.box.plugin import Context, Plugin
from glovebox.errors import BrowserError, PluginFailed
from glovebox.http.endpoints import Endpoint, Socket
from glovebox.protocol.actions import BrowseInteractiveAction, BrowseURLAction
from glovebox.protocol.observations import BrowserOutputObservation, FileDownloadObservation

if TYPE_CHECKING:
    from glovebox.box.browser.browser import Browser


class BrowserPlugin(Plugin):
    """Shows web pages to agents. Chromium itself starts with the first page."""

    name = "browser"
    options = BrowserOptions
    starts = "background"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._options = context.options(BrowserOptions)
        self._browser: Browser | None = None

    @property
    def browser(self) -> Browser:
        """The browser.

        Raises:
            PluginFailed: the plugin is not started.
        """
        if self._browser is None:
            raise PluginFailed("Plugin browser is not started.")
        return self._browser

    def handlers(self) -> Iterable[Handler]:
        """`browse` and `browse_interactive`."""
        return [self.browse, self.browse_interactive]

    def endpoints(self) -> Iterable[Endpoint | Socket]:
        """What people see of it."""
        return browser_endpoints(lambda: self.browser, self.context.closing)

    def gauges(self) -> Mapping[str, float]:
        """Whether it runs."""
        return {"browser_running": self._browser.running if self._browser else 0}

    async def browse(
        self, action: BrowseURLAction, call: Call
    ) -> BrowserOutputObservation | FileDownloadObservation:
        """Open a page and read it."""
        return await self.browser.browse(action)

    async def browse_interactive(
        self, action: BrowseInteractiveAction, call: Call
    ) -> BrowserOutputObservation | FileDownloadObservation:
        """Act on the active page."""
        return await self.browser.interact(action)

    async def start(self) -> None:
        """Be ready; a browser that an earlier server left is taken over."""
        from glovebox.box.browser.browser import Browser

        self._browser = Browser(
            self._options,
            self.context.settings,
            ports=self.context.services.ports,
            keeper=self.context.keeper,
            threads=self.context.threads,
            events=self.context.events,
        )
        await self._browser.open()

    async def health(self) -> dict[str, Any]:
        """Whether it answers; one that was never needed is well."""
        try:
            info = await self.browser.info()
        except BrowserError as error:
            raise PluginFailed(str(error)) from error
        return {"browser": info.state, "pages": len(info.pages), "version": info.version}

    async def stop(self) -> None:
        """Leave it."""
        if self._browser is not None:
            browser, self._browser = self._browser, None
            await browser.close()
