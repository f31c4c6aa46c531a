"""An editor for tests: a client of the protocol that starts `mgn-lsp` and speaks to it over stdio.

In: texts. Out: what the server answers, and the diagnostics that it has published for each text.
"""

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.client import LanguageClient

T = TypeVar("T")
MOST_SECONDS = 60.0
COMMAND = "from mgn.commands.lsp import main; raise SystemExit(main(['--stdio']))"


class Editor:
    """A client, with a loop of its own."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.published: dict[str, types.PublishDiagnosticsParams] = {}
        self.versions: dict[str, int] = {}
        self.messages: list[str] = []
        self.client = LanguageClient("test", "1")
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(
            lambda found: self._take(found)
        )
        self.client.feature(types.WINDOW_SHOW_MESSAGE)(lambda said: self._hear(said))
        self.run(self.client.start_io(sys.executable, "-c", COMMAND))
        self.server = self.ask(
            types.INITIALIZE,
            types.InitializeParams(
                capabilities=types.ClientCapabilities(),
                workspace_folders=[types.WorkspaceFolder(folder.as_uri(), folder.name)],
                initialization_options=options,
            ),
        )
        self.tell(types.INITIALIZED, types.InitializedParams())

    def _take(self, params: types.PublishDiagnosticsParams) -> None:
        self.published[params.uri] = params

    def _hear(self, params: types.ShowMessageParams) -> None:
        self.messages.append(params.message)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of some work, in time."""
        return self.loop.run_until_complete(asyncio.wait_for(work, MOST_SECONDS))

    def ask(self, method: str, params: Any = None) -> Any:
        """The answer to a request."""
        return self.run(self._asked(method, params))

    async def _asked(self, method: str, params: Any) -> Any:
        return await self.client.protocol.send_request_async(method, params)

    def tell(self, method: str, params: Any) -> None:
        """Sends a notification."""
        self.client.protocol.notify(method, params)

    def write(self, uri: str, text: str) -> None:
        """Opens a text, or changes it."""
        version = self.versions[uri] = self.versions.get(uri, 0) + 1
        if version == 1:
            item = types.TextDocumentItem(uri, "mgn", version, text)
            self.tell(types.TEXT_DOCUMENT_DID_OPEN, types.DidOpenTextDocumentParams(item))
            return
        item = types.VersionedTextDocumentIdentifier(version, uri)
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.tell(types.TEXT_DOCUMENT_DID_CHANGE, types.DidChangeTextDocumentParams(item, [change]))

    def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        """What the server says of a text as it is now."""
        return self.run(self._published(uri))

    async def _published(self, uri: str) -> list[types.Diagnostic]:
        while True:
            found = self.published.get(uri)
            if found is not None and found.version == self.versions[uri]:
                return list(found.diagnostics)
            await asyncio.sleep(0.002)

    def check(self, uri: str, text: str) -> list[types.Diagnostic]:
        """Opens or changes a text; what the server says of it."""
        self.write(uri, text)
        return self.diagnostics(uri)

    def close(self, uri: str) -> None:
        """Closes a text."""
        params = types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri))
        self.tell(types.TEXT_DOCUMENT_DID_CLOSE, params)
        del self.versions[uri]
        self.published.pop(uri, None)

    def at(self, kind: Any, method: str, uri: str, spot: tuple[int, int], **more: Any) -> Any:
        """The answer to a request about a position."""
        where, document = types.Position(*spot), types.TextDocumentIdentifier(uri)
        return self.ask(method, kind(text_document=document, position=where, **more))

    def hover(self, uri: str, spot: tuple[int, int]) -> str:
        """What is said of a name."""
        found = self.at(types.HoverParams, types.TEXT_DOCUMENT_HOVER, uri, spot)
        return found.contents.value if found is not None else ""

    def stop(self) -> int | None:
        """Ends the server; its exit status."""
        self.ask(types.SHUTDOWN)
        self.tell(types.EXIT, None)
        process = self.client._server
        assert process is not None
        self.run(process.wait())
        self.run(self.client.stop())
        self.loop.close()
        return process.returncode
