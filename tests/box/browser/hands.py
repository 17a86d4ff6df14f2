"""An agent's hands on pages that note what is done to them, with a browser but without a box around it."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.async_api import BrowserContext, Frame, Page

from glovebox.box.browser.worker.actions import PageActions

#: How long a page may take to show what was done to it, in milliseconds.
SOON = 10_000

#: Gives every element its id, as agents know them; frames have letters.
MARK = """prefix => {
    let elements = 0, frames = 0;
    const letters = n => n < 26 ? String.fromCharCode(97 + n) : 'a' + String.fromCharCode(65 + n - 26);
    const walk = root => {
        for (const element of root.querySelectorAll('*')) {
            const id = element.localName === 'iframe' ? letters(frames++) : elements++;
            element.setAttribute('bid', prefix + id);
            if (element.shadowRoot) walk(element.shadowRoot);
        }
    };
    walk(document);
}"""
SHOWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
#: Pages note what happens to them, as texts such as `click:go:left`.
NOTE = """<script>
    const seen = [];
    const note = (...parts) => { seen.push(parts.join(':')); };
</script>"""

FORM = """
<input id=name value=before>
<textarea id=story></textarea>
<select id=colour>
    <option value=r>Red</option><option value=g>Green</option><option value=b>Blue</option>
</select>
<select id=many multiple><option>one</option><option>two</option><option>three</option></select>
<button id=go>Go</button>
<button id=disabled disabled>Not now</button>
<button id=hidden style="display:none">Nowhere</button>
<input id=unseen style="display:none">
<div id=host></div>
<script>
    for (const kind of ['click', 'dblclick', 'mouseover', 'contextmenu', 'auxclick'])
        go.addEventListener(kind, event => note(kind, event.button, event.shiftKey, event.altKey));
    const field = document.getElementById('name');
    field.addEventListener('focus', () => note('focus'));
    field.addEventListener('keydown', event => note('key', event.key, event.ctrlKey));
    host.attachShadow({mode: 'open'}).innerHTML = '<button id=inner>In the shadow</button>';
    host.shadowRoot.firstChild.onclick = () => note('shadow');
</script>"""

DRAGGING = """
<div id=native draggable=true style="width: 80px; height: 40px">drag</div>
<div id=drop style="width: 200px; height: 100px">drop</div>
<div id=handle style="position: absolute; left: 400px; top: 10px; width: 50px; height: 50px">handle</div>
<div id=target style="position: absolute; left: 600px; top: 300px; width: 90px; height: 90px">target</div>
<div id=hidden style="display:none">hidden</div>
<script>
    native.ondragstart = event => event.dataTransfer.setData('text', 'cargo');
    drop.ondragover = event => event.preventDefault();
    drop.ondrop = event => { event.preventDefault(); note('dropped', event.dataTransfer.getData('text')); };
    let held = false;
    handle.onmousedown = () => { held = true; };
    document.addEventListener('mousemove', event => {
        if (!held) return;
        handle.style.left = event.clientX - 25 + 'px';
        handle.style.top = event.clientY - 25 + 'px';
    });
    document.addEventListener('mouseup', event => {
        held = false;
        note('released', event.clientX, event.clientY);
    });
</script>"""

UPLOADING = """
<input type=file id=one>
<input type=file id=several multiple style="display: none">
<label id=label for=several>Choose</label>
<button id=asking onclick="one.click()" style="position: absolute; left: 300px; top: 300px">Ask</button>
<button id=silent>Nothing</button>"""

NESTED = "<button id=outer>Outer</button><iframe srcdoc='<button id=inner>Inner</button>'></iframe>"
SMALL = "".join(f"<iframe width=20 height=20 srcdoc='<p>{n}</p>'></iframe>" for n in range(25))
FRAMES = f'<iframe srcdoc="{NESTED}"></iframe>{SMALL}<iframe srcdoc="<input id=last>"></iframe>'

POINTING = """
<textarea id=text style="position: absolute; left: 0; top: 0; width: 200px; height: 100px"></textarea>
<div id=pad style="position: absolute; left: 300px; top: 0; width: 300px; height: 300px"></div>
<script>
    for (const kind of ['mousemove', 'mousedown', 'mouseup', 'click', 'dblclick', 'contextmenu'])
        pad.addEventListener(kind, event => note(kind, event.clientX, event.clientY, event.button));
    for (const kind of ['keydown', 'keyup', 'input'])
        text.addEventListener(kind, event => note(kind, event.key ?? event.data));
</script>"""

PAGES = {
    "/form": FORM,
    "/dragging": DRAGGING,
    "/uploading": UPLOADING,
    "/frames": FRAMES,
    "/pointing": POINTING,
    "/tall": "<div style='width: 5000px; height: 5000px'>tall</div>",
    "/other": "<p>other</p>",
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/never":
            assert isinstance(self.server, Site)
            self.server.closing.wait()
            return
        body = (NOTE + PAGES.get(self.path, "")).encode()
        self.send_response(200)
        if self.path == "/download":
            self.send_header("Content-Disposition", "attachment")
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Site(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.closing = threading.Event()


class OpenTabs:
    """The pages of a context; all but one address may be visited."""

    def __init__(self, context: BrowserContext, page: Page) -> None:
        self._context = context
        self.page = page

    @property
    def pages(self) -> list[Page]:
        return self._context.pages

    async def open(self) -> None:
        self.page = await self._context.new_page()

    async def close(self) -> None:
        await self.page.close()
        self.page = self.pages[-1] if self.pages else await self._context.new_page()

    async def focus(self, index: int) -> None:
        self.page = self.pages[index]
        await self.page.bring_to_front()

    def check(self, url: str) -> None:
        if url == "http://forbidden/":
            raise ValueError("This address may not be visited.")


async def mark(frame: Frame, prefix: str = "") -> None:
    await frame.evaluate(MARK, prefix)
    for child in frame.child_frames:
        inner = await (await child.frame_element()).get_attribute("bid")
        assert inner is not None
        await mark(child, inner)


class Hands:
    """An agent with a page before it."""

    def __init__(
        self,
        tabs: OpenTabs,
        address: str,
        workspace: Path,
        *,
        load_limit: float = 30,
        element_limit: float = 20,
    ) -> None:
        self.tabs = tabs
        self.address = address
        self.acting = PageActions(
            tabs,
            load_limit=load_limit,
            workspace=str(workspace),
            coordinates=True,
            element_limit=element_limit,
        )

    @property
    def page(self) -> Page:
        return self.tabs.page

    async def open(self, path: str) -> None:
        await self.page.goto(self.address + path)
        await mark(self.page.main_frame)
        # Before a page is shown, Chromium lets nobody click on it.
        await self.page.evaluate(SHOWN)

    async def bid(self, css: str) -> str:
        bid = await self.page.locator(css).get_attribute("bid")
        assert bid is not None
        return bid

    async def do(self, *calls: str) -> str:
        """Carry out calls; `#name` stands for the id of the element that is found so."""
        text = "\n".join(calls)
        for css in sorted(set(re.findall(r"#\w+", text)), key=len, reverse=True):
            text = text.replace(css, await self.bid(css))
        return await self.acting.perform(text)

    async def seen(self) -> list[str]:
        """What the page has noted, which it notes no more."""
        noted: list[str] = await self.page.evaluate("seen.splice(0)")
        return noted

    async def becomes(self, expression: str) -> None:
        await self.page.wait_for_function(expression, timeout=SOON)

    async def value(self, css: str) -> str:
        return await self.page.locator(css).input_value()
