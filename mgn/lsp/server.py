"""The language server's memory and clock: texts that are open, and when the compiler looks at them.

In: texts as the editor sends them. Out: diagnostics, when the author pauses; and for all answers,
what is known so far. The compiler runs in a thread of its own, and gives up when the text changes.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

from lsprotocol import types
from pygls.exceptions import FeatureNotificationError
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

import mgn
from mgn.diagnostics import Diagnostic
from mgn.frontend.observed import Cancelled, Observed
from mgn.frontend.syntax.ast import Place
from mgn.frontend.syntax.source import Source
from mgn.frontend.syntax.units import Unit
from mgn.lsp import convert
from mgn.lsp.documents import Document, Documents
from mgn.lsp.positions import Positions
from mgn.lsp.problems import Problem, problems_of

PAUSE = 0.1
"""Seconds without a change before the compiler looks at a text, where the editor says nothing."""

PATIENCE = 0.7
"""Seconds that an answer waits for the compiler before it does without."""


class Server(LanguageServer):
    """A language server for `.mgn` files; `features.py` gives it its answers."""

    def __init__(self) -> None:
        super().__init__(
            "mgn-lsp", getattr(mgn, "__version__", "0"), types.TextDocumentSyncKind.Full
        )
        self.documents = Documents()
        self.pause = PAUSE
        self.problems: dict[str, list[Problem]] = {}
        self._worker = ThreadPoolExecutor(1, "mgn-lsp")
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._positions: dict[str, Positions] = {}

    # ---- texts

    def opened(self, uri: str, text: str, version: int | None) -> None:
        """A text was opened, or has changed."""
        document = self.documents.open.get(uri)
        if document is None:
            path = to_fs_path(uri)
            document = Document(uri, Path(path) if path else None, text)
            self.documents.open[uri] = document
        document.text, document.version = text, version
        self._look_at(document)
        self.file_changed(document)

    def closed(self, uri: str) -> None:
        """A text was closed: what is on disk counts again."""
        document = self.documents.open.pop(uri, None)
        if document is None:
            return
        document.stop.set()
        self._positions.pop(uri, None)
        self.problems.pop(uri, None)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))
        self.file_changed(document)

    def file_changed(self, document: Document) -> None:
        """Looks again at the texts that import one."""
        if document.path is not None:
            for importer in self.documents.importers(document.path):
                if importer is not document:
                    self._look_at(importer)

    def look_at_all(self) -> None:
        """Looks again at all texts."""
        for document in self.documents.open.values():
            self._look_at(document)

    def stop_all(self) -> None:
        """Has the compiler give up whatever it looks at."""
        for document in self.documents.open.values():
            document.stop.set()

    @property
    def folders(self) -> list[Path]:
        """The folders that the editor has open."""
        workspace = self.workspace
        uris = list(workspace.folders) or [workspace.root_uri or ""]
        return [Path(path) for path in map(to_fs_path, uris) if path]

    # ---- positions

    def positions(self, source: Source, uri: str = "") -> Positions:
        """The positions of a text in the encoding that the editor has chosen."""
        known = self._positions.get(uri)
        if known is None or known.text is not source.text:
            chosen = self.server_capabilities.position_encoding
            encoding = types.PositionEncodingKind(chosen or types.PositionEncodingKind.Utf16)
            known = Positions(source.text, encoding.value)
            if uri in self.documents.open:
                self._positions[uri] = known
        return known

    def positions_in(self, document: Document) -> Positions:
        """The positions of a text that is open."""
        return self.positions(document.source, document.uri)

    def place(self, document: Document, position: types.Position) -> Place:
        """The place of a position."""
        return self.positions_in(document).place(position.line, position.character)

    def uri_of(self, path: Path | str) -> str:
        """The URI of a file, as the editor writes it where that has it open."""
        if isinstance(path, Path):
            whole = path.resolve()
            for document in self.documents.open.values():
                if document.path is not None and document.path.resolve() == whole:
                    return document.uri
        return convert.uri_of(path)

    # ---- the compiler

    async def ready(self, uri: str, patience: float = PATIENCE) -> Document | None:
        """A text, when the compiler has looked at it as it is, or after some time."""
        task = self._tasks.get(uri)
        if task is not None and not task.done():
            await asyncio.wait({task}, timeout=patience)
        return self.documents.open.get(uri)

    def _look_at(self, document: Document) -> None:
        document.stop.set()
        document.stop = Event()
        task = self._tasks.get(document.uri)
        if task is not None:
            task.cancel()
        task = asyncio.ensure_future(self._observe(document, document.stop))
        task.add_done_callback(self._ended)
        self._tasks[document.uri] = task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Says what went wrong where nobody asked."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._report_server_error(error, FeatureNotificationError)

    async def _observe(self, document: Document, stop: Event) -> None:
        await asyncio.sleep(self.pause)
        text = document.text
        look: Callable[..., Observed] = self.documents.observe
        try:
            loop = asyncio.get_running_loop()
            observed = await loop.run_in_executor(self._worker, look, document, text, stop)
        except Cancelled:
            return
        except Exception as error:  # a text must not end the server
            said = f"internal error, which is a fault in mgn: {type(error).__name__}: {error}"
            observed = Observed(Unit(document.source), {}, [Diagnostic(said, document.name)])
        if stop.is_set():
            return
        document.observed, document.observed_text = observed, text
        self._publish(document, observed)
        self._refresh_hints()

    def _publish(self, document: Document, observed: Observed) -> None:
        found = problems_of(observed, self.documents.reading(document.source))
        self.problems[document.uri] = found
        positions = self.positions_in(document)
        rows: list[types.Diagnostic] = []
        for problem in found:
            places = [
                (note, self._location(document, note.path, note.place)) for note in problem.related
            ]
            rows.append(convert.diagnostic(positions, problem, places))
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(document.uri, rows, document.version)
        )

    def _location(self, document: Document, path: Path | None, place: Place) -> types.Location:
        """A place in a text or in one that it imports."""
        source = document.source
        if path is not None:
            try:
                source = self.documents.source_of(path)
            except Exception:  # it was there when the compiler read it
                source = Source("", str(path), path)
        uri = document.uri if path is None else self.uri_of(path)
        return types.Location(uri, convert.range_of(self.positions(source, uri), place, place))

    def _refresh_hints(self) -> None:
        """Tells the editor to ask for hints again, where it can be told."""
        workspace: Any = self.client_capabilities.workspace
        hints = workspace.inlay_hint if workspace is not None else None
        if hints is not None and hints.refresh_support:
            self.workspace_inlay_hint_refresh(None)
