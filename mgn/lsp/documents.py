"""The texts that an editor has open, those that they import, and what is known of each.

In: texts as they change. Out: what a text names, at once, and what the compiler says of it, which
takes longer and is asked for in a thread of its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock

from mgn.frontend.observed import Observed, observe
from mgn.frontend.syntax.source import Source, read_source
from mgn.lsp.reader import read_names
from mgn.lsp.symbols import Occurrence, Reading, Symbol

MOST_FILES = 2000
"""Files of a folder in which references are looked for."""


@dataclass(eq=False)
class Document:
    """A text that is open. `observed` is what the compiler said of `observed_text`, which may be an
    earlier one; `stop` is set where nobody waits for an answer any more.
    """

    uri: str
    path: Path | None
    text: str
    version: int | None = None
    observed: Observed | None = None
    observed_text: str | None = None
    stop: Event = field(default_factory=Event)

    @property
    def name(self) -> str:
        """What the compiler calls the text."""
        return str(self.path) if self.path is not None else self.uri

    @property
    def source(self) -> Source:
        """The text as the compiler takes it."""
        return Source(self.text, self.name, self.path)

    @property
    def fresh(self) -> Observed | None:
        """What the compiler said of the text as it is now."""
        return self.observed if self.observed_text == self.text else None


@dataclass(frozen=True, eq=False)
class Target:
    """A symbol, and the text in which it is declared."""

    symbol: Symbol
    source: Source


class Documents:
    """The open texts by URI."""

    def __init__(self) -> None:
        self.open: dict[str, Document] = {}
        self.dims: Mapping[str, int] = {}
        self._readings: dict[str, tuple[str, Reading]] = {}
        self._lock = Lock()

    # ---- texts

    def source_of(self, path: Path) -> Source:
        """The text of a file: as it is open, else as it is on disk. Raises DiagnosticsError."""
        whole = path.resolve()
        for document in list(self.open.values()):
            if document.path is not None and document.path.resolve() == whole:
                return Source(document.text, str(path), path)
        return read_source(path)

    def observe(self, document: Document, text: str, stop: Event) -> Observed:
        """What the compiler says of a text of a document. Raises Cancelled after `stop`."""
        source = Source(text, document.name, document.path)
        self.reading(source)  # which every answer waits for
        return observe(source, self.dims, self.source_of, stop.is_set)

    def reading(self, source: Source) -> Reading:
        """What a text names, worked out once for each text."""
        with self._lock:
            known = self._readings.get(source.name)
            if known is not None and known[0] == source.text:
                return known[1]
            made = read_names(source.text)
            self._readings[source.name] = source.text, made
            return made

    def importers(self, path: Path) -> Iterator[Document]:
        """The open texts that import a file."""
        whole = path.resolve()
        for document in list(self.open.values()):
            if document.observed is not None and whole in document.observed.files:
                yield document

    def observations(self, document: Document) -> Iterator[tuple[Observed, str]]:
        """What the compiler said of a text as it is, with what it called it: looking at the text
        itself, and at those that import it.
        """
        if document.fresh is not None:
            yield document.fresh, document.name
        if document.path is None:
            return
        whole = document.path.resolve()
        for importer in self.importers(document.path):
            observed = importer.fresh
            unit = observed.files[whole] if observed is not None else None
            if observed is None or unit is None or importer is document:
                continue
            if unit.source.text == document.text:
                yield observed, unit.source.name

    # ---- names

    def sources(self, source: Source) -> Iterator[Source]:
        """A text, and those that it imports, also by others."""
        pending, known = [source], set[Path]()
        while pending:
            item = pending.pop()
            yield item
            folder = item.path.parent if item.path is not None else Path()
            for name, _, _ in self.reading(item).imports:
                try:
                    path = (folder / name).resolve()
                    if path not in known:
                        known.add(path)
                        pending.append(self.source_of(folder / name))
                except Exception:  # the compiler says at the import what is wrong with it
                    continue

    def targets(self, source: Source) -> dict[str, Target]:
        """The names that a file and its imports declare for all of the file."""
        found: dict[str, Target] = {}
        for item in self.sources(source):
            for name, symbol in self.reading(item).globals.items():
                found.setdefault(name, Target(symbol, item))
        return found

    def target(self, source: Source, item: Occurrence) -> Target | None:
        """What a name means, here or in an import."""
        if item.symbol is not None:
            return Target(item.symbol, source)
        if item.callee is not None:
            callee = self.targets(source).get(item.callee)
            formals = callee.symbol.formals if callee is not None else ()
            found = next((one for one in formals if one.name == item.name), None)
            return Target(found, callee.source) if found is not None and callee else None
        known = self.targets(source).get(item.name)
        return known if known is not None and known.source is not source else None

    def occurrences(
        self, target: Target, folders: list[Path]
    ) -> dict[Path | str, list[Occurrence]]:
        """Where a symbol is named: in its file, in the open ones, and in those of some folders."""
        found: dict[Path | str, list[Occurrence]] = {}
        key = target.source.path or target.source.name
        found[key] = list(target.symbol.occurrences)
        if target.source.path is None or not self._is_seen_elsewhere(target.symbol):
            return found
        whole = target.source.path.resolve()
        for source in self._everywhere(folders):
            if source.path is None or source.path.resolve() == whole:
                continue
            if target.symbol.name not in source.text or "import" not in source.text:
                continue
            rows = [
                item
                for item in self.reading(source).occurrences
                if item.name == target.symbol.name
                and (meant := self.target(source, item)) is not None
                and meant.symbol.place == target.symbol.place
                and meant.source.path is not None
                and meant.source.path.resolve() == whole
            ]
            if rows:
                found[source.path] = rows
        return found

    def _is_seen_elsewhere(self, symbol: Symbol) -> bool:
        owner = symbol.scope.owner
        return symbol.is_global or (owner is not None and symbol in owner.formals)

    def _everywhere(self, folders: list[Path]) -> Iterator[Source]:
        """The texts that are open, and the files of some folders."""
        seen: set[Path] = set()
        for document in list(self.open.values()):
            if document.path is not None:
                seen.add(document.path.resolve())
                yield document.source
        count = 0
        for folder in folders:
            for path in folder.rglob("*.mgn"):
                count += 1
                if count > MOST_FILES:
                    return
                if path.is_file() and path.resolve() not in seen:
                    seen.add(path.resolve())
                    try:
                        yield read_source(path)
                    except Exception:  # a file that is no text names nothing
                        continue
