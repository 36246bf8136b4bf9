"""The databases that durable stores are tested on: files of SQLite, and a PostgreSQL of our own.

The PostgreSQL is a server on loopback, in a directory of its own, started once for each process of tests that wants it
and removed at its end. The machine's own one, if it has one, is not touched. As root it runs as another user, because
PostgreSQL refuses root. Where it is not installed those tests are skipped, and say how to install it.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.ports import free_port

PATIENCE_S = 60
DEBIAN = Path("/usr/lib/postgresql")
"""Where Debian puts the programs, by version."""
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",  # nobody pulls the plug here
    "max_connections": "60",
    "shared_buffers": "32MB",
    "log_min_messages": "fatal",
}


def programs() -> Path | None:
    """The directory of initdb and pg_ctl, those of the newest version; None: it is not installed."""
    found = shutil.which("pg_ctl")
    if found is not None and (Path(found).parent / "initdb").exists():
        return Path(found).parent
    versions = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


class Cluster:
    """A PostgreSQL server that is ours alone."""

    user = "regrow"

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="regrow-postgres-"))
        self._as: dict[str, Any] = {}
        self._numbers = itertools.count()
        if os.geteuid() == 0:
            names = {entry.pw_name for entry in pwd.getpwall()}
            account = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
            os.chown(self._folder, account.pw_uid, account.pw_gid)
            self._as = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self._ender = self._set_up_ender()
        self.port = free_port()
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", self.user, "-E", "UTF8", "--no-sync")
        self.start()

    def _set_up_ender(self) -> subprocess.Popen[bytes]:
        """What leaves nothing of it when we are gone, however we went: then the end of its input comes."""
        script = 'read -r _; "$0" -D "$1/data" -m immediate -w stop; rm -rf "$1"'
        return subprocess.Popen(
            ["/bin/sh", "-c", script, str(self._programs / "pg_ctl"), str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is not meant for it
            cwd="/",
            **self._as,
        )

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _run(self, program: str, *arguments: str) -> None:
        environment = os.environ | {"LC_ALL": "C", "HOME": str(self._folder)}
        # Its output goes to a file: the server keeps what it was started with open, and a pipe would never end.
        with (self._folder / "output").open("w+b") as output:
            done = subprocess.run(
                [str(self._programs / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=environment,
                timeout=PATIENCE_S,
                check=False,
                **self._as,
            )
            output.seek(0)
            if done.returncode:
                raise RuntimeError(f"{program}: {output.read().decode(errors='replace')}")

    def start(self) -> None:
        """Start the server; returns when it answers."""
        options = {"port": str(self.port), "unix_socket_directories": str(self._folder)} | SETTINGS
        given = " ".join(f"-c {name}={value}" for name, value in options.items())
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", str(self._data), "-l", log, "-o", given, "-w", "-t", str(PATIENCE_S), "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: ``fast`` ends all sessions, ``immediate`` is a crash."""
        self._run("pg_ctl", "-D", str(self._data), "-m", mode, "-w", "-t", str(PATIENCE_S), "stop")

    def url(self, database: str = "postgres") -> str:
        """The URL of a database, as a user of the library writes it."""
        return f"postgresql://{self.user}@127.0.0.1:{self.port}/{database}"

    def create(self) -> str:
        """A new, empty database: its URL."""
        name = f"test{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Delete a database, whoever is connected to it."""
        self.execute(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)")

    def execute(self, statement: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement in a session of its own; returns the rows, if it has any."""
        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description is not None else []

    def end_sessions(self, url: str) -> int:
        """End every session of a database, as an administrator would; returns how many there were."""
        name = url.rpartition("/")[2]
        ended = self.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")  # noqa: S608
        return len(ended)

    def close(self) -> None:
        """Leave nothing of it."""
        self._ender.communicate(timeout=10 * PATIENCE_S)  # a folder of hundreds of databases takes long


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """A server for all tests of this process that want one."""
    found = programs()
    if found is None:
        pytest.skip(
            f"needs PostgreSQL: neither PATH nor {DEBIAN} has initdb and pg_ctl. Debian: apt-get install postgresql"
        )
    cluster = Cluster(found)
    yield cluster
    cluster.close()


@pytest.fixture
def postgres_url(postgres: Cluster) -> Iterator[str]:
    """An empty database of it."""
    url = postgres.create()
    yield url
    postgres.drop(url)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A file that is not there yet."""
    return f"sqlite:///{tmp_path / 'tasks.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty database of each kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
