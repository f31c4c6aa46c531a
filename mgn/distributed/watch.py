"""Tells ranks of one another's ends: of errors, of clean ends, and of processes that were killed.

In: the ranks, each with a connection to the first one over TCP. Out: `failure`, as soon as one rank
has failed. A connection that ends without a word is a process that was killed, or a machine that is
gone. MPI itself waits for such a rank for ever, or ends all without saying why.
"""

import contextlib
import json
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mgn.diagnostics import MgnError

PATIENCE = 5.0
"""Seconds within which the main thread notices a failure; then the process ends without it."""

LAST_WORDS = 2.0
"""Seconds that a rank waits, before it ends, until the others have said what happened."""

CONNECTING = 60.0
"""Seconds that ranks have to connect."""

WITHOUT_A_WORD = "ended without a word: it was killed, or it crashed"

_LONGEST = 4000
_KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


@dataclass(frozen=True)
class Failure:
    """Which rank failed, and what it said."""

    rank: int
    text: str


class Watch:
    """One rank's view of the others' ends. `names` says of each rank who it is. `tell` gives what
    the first rank has to say to all of them before they are connected.
    """

    def __init__(
        self, rank: int, names: list[str], one_host: bool, tell: Callable[[Any], Any]
    ) -> None:
        self.rank, self.names = rank, names
        self.failure: Failure | None = None
        self.gone: dict[int, float] = {}
        """The ranks that have come to their end, and when that was heard."""
        self.is_noticed = False
        self._said: set[int] = set()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._links: dict[int, socket.socket] = {}
        if rank == 0:
            self._listen(one_host, tell)
        else:
            self._connect(*tell(None))
        for other, link in self._links.items():
            name = f"mgn-rank-{other}"
            threading.Thread(target=self._hear, args=(other, link), name=name, daemon=True).start()

    def fail(self, text: str) -> None:
        """Tells the others that this rank has failed."""
        with self._lock:
            if self.failure is not None:
                return
            self.failure = Failure(self.rank, text[:_LONGEST])
            self.is_noticed = True
        self._send_all({"failed": self.rank, "text": text[:_LONGEST]})

    def leave(self) -> None:
        """Tells the others that this rank has come to its end."""
        self._send_all({"gone": self.rank})

    def settle(self) -> None:
        """Waits, after a failure, until all ranks have said what happened, but not for long."""
        self._note_said(self.rank)
        self._send_all({"said": self.rank})
        self._ended.wait(LAST_WORDS)

    def _listen(self, one_host: bool, tell: Callable[[Any], Any]) -> None:
        server = socket.create_server(("127.0.0.1" if one_host else "", 0))
        server.settimeout(CONNECTING)
        token = secrets.token_hex(16)
        hosts = ["127.0.0.1"] if one_host else _addresses()
        tell((hosts, server.getsockname()[1], token))
        with server:
            while len(self._links) < len(self.names) - 1:
                try:
                    link, _ = server.accept()
                except TimeoutError:
                    missing = [n for n in range(1, len(self.names)) if n not in self._links]
                    raise MgnError(f"rank {missing[0]} could not connect to rank 0") from None
                link.settimeout(CONNECTING)
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    hello = json.loads(link.makefile("rb", buffering=0).readline(1000))
                    if secrets.compare_digest(hello["token"], token):
                        self._links[int(hello["rank"])] = _kept_alive(link)
                        continue
                link.close()

    def _connect(self, hosts: list[str], port: int, token: str) -> None:
        for host in hosts:
            with contextlib.suppress(OSError):
                link = socket.create_connection((host, port), timeout=CONNECTING / 4)
                self._links[0] = _kept_alive(link)
                self._send(0, {"rank": self.rank, "token": token})
                return
        raise MgnError(
            f"rank {self.rank} ({self.names[self.rank]}) cannot connect to rank 0 at "
            f"{', '.join(hosts)}, port {port}"
        )

    def _hear(self, other: int, link: socket.socket) -> None:
        """Takes all that another rank says, in a thread."""
        try:
            for line in link.makefile("rb"):
                self._take(other, json.loads(line))
        except (OSError, ValueError):
            pass
        self._lost(other)

    def _take(self, other: int, message: dict[str, Any]) -> None:
        if "failed" in message:
            self._note(Failure(message["failed"], message["text"]), other)
        elif "gone" in message:
            self.gone[message["gone"]] = time.monotonic()
            self._pass_on(other, message)
        elif "said" in message:
            self._note_said(message["said"])
        elif "end" in message:
            self._ended.set()

    def _lost(self, other: int) -> None:
        """A connection has ended."""
        if other not in self.gone:
            self._note(Failure(other, WITHOUT_A_WORD), other)
        if self.rank:
            self._ended.set()
        else:
            self._note_said(other)

    def _note(self, failure: Failure, heard_from: int) -> None:
        with self._lock:
            if self.failure is not None:
                return
            self.failure = failure
        self._pass_on(heard_from, {"failed": failure.rank, "text": failure.text})
        timer = threading.Timer(PATIENCE, self._end)
        timer.daemon = True
        timer.start()

    def _end(self) -> None:
        """Ends a process whose main thread does not notice that another one has failed."""
        if not self.is_noticed:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"error: {self.message}\n")
                sys.stderr.flush()
            os._exit(1)

    @property
    def message(self) -> str:
        """What is to be said of the failure."""
        assert self.failure is not None
        rank, text = self.failure.rank, self.failure.text
        said = text if text == WITHOUT_A_WORD else f"failed: {text}"
        return f"rank {rank} ({self.names[rank]}) {said}"

    def _note_said(self, rank: int) -> None:
        if self.rank:
            return
        self._said.add(rank)
        if self.failure is not None and len(self._said) == len(self.names):
            self._send_all({"end": True})
            self._ended.set()

    def _pass_on(self, heard_from: int, message: dict[str, Any]) -> None:
        """Has the others hear what the first rank has heard."""
        for other in self._links if self.rank == 0 else ():
            if other != heard_from:
                self._send(other, message)

    def _send_all(self, message: dict[str, Any]) -> None:
        for other in self._links:
            self._send(other, message)

    def _send(self, other: int, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._links[other].sendall(json.dumps(message).encode() + b"\n")


def _kept_alive(link: socket.socket) -> socket.socket:
    """A connection of which the system looks by itself whether the other machine is there."""
    link.settimeout(None)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return link


def _addresses() -> list[str]:
    """The names by which other machines may know this one, the likeliest first."""
    found = [socket.gethostname(), socket.getfqdn()]
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent: only a route is looked up
        found.insert(0, probe.getsockname()[0])
    return list(dict.fromkeys(found))
