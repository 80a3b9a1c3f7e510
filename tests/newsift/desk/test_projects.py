import re
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from encoder.errors import InputError
from newsift.desk.project import describe, locked, open_project
from newsift.desk.projects import MAX_UPLOAD_BYTES, MAX_UPLOADS, Projects
from newsift.desk.views import PROJECT_ENDPOINTS
from newsift.desk.views import projects as views
from newsift.files.tables import FileOptions
from tests.broker.clients import until
from tests.newsift.desk.desk_client import call
from worker.config.limits import DEFAULT_LIMITS
from worker.errors import RunError

TABLE = b"id,text\n1,a ferry burns\n"
MODE = 0o777


def run(folder: Path, end: Event, on_open: Callable[[Any], None]) -> None:
    with open_project(folder) as project:
        if project.files[0].read_bytes() == b"text\nfails\n":
            raise RunError("--project: the worker ended")
        on_open(SimpleNamespace(folder=folder))
        end.wait()


@pytest.fixture
def projects(tmp_path: Path) -> Iterator[Projects]:
    folder = tmp_path / "projects"
    folder.mkdir()
    shown = Projects(folder, DEFAULT_LIMITS, run)
    shown.start()
    yield shown
    shown.stop()


def upload(projects: Projects, content: bytes = TABLE, name: str = "posts.csv") -> str:
    token = projects.begin_upload(name, len(content))
    for offset in range(0, len(content), 10):
        projects.add_to_upload(token, offset, content[offset : offset + 10])
    return token


def opened(projects: Projects, name: str = "ferry", content: bytes = TABLE) -> Any:
    """The desk of a new project."""
    projects.create(upload(projects, content), name, FileOptions())
    until(lambda: projects.state["opening"] is None)
    return projects.desk


def test_an_upload_becomes_a_private_project_that_is_open(projects: Projects) -> None:
    assert opened(projects).folder == projects.folder / "ferry"
    file = projects.folder / "ferry" / "uploaded" / "posts.csv"
    assert file.read_bytes() == TABLE
    assert [each.stat().st_mode & MODE for each in (file, file.parent.parent)] == [0o600, 0o700]
    (row,) = projects.rows()
    assert (row.name, row.files, row.uploaded) == ("ferry", ["posts.csv"], len(TABLE))
    assert projects.state == {"project": "ferry", "opening": None, "error": ""}


def test_two_uploads_at_once_do_not_meet(projects: Projects) -> None:
    """Of two tabs: the same file name, in turns."""
    one, other = (projects.begin_upload("posts.csv", 4) for _ in range(2))
    for offset in (0, 2):
        projects.add_to_upload(one, offset, b"aa")
        projects.add_to_upload(other, offset, b"bb")
    contents = {f.read_bytes() for f in projects.folder.glob(".newsift-upload-*/uploaded/*")}
    assert contents == {b"aaaa", b"bbbb"}
    with pytest.raises(InputError, match="pieces"):
        projects.add_to_upload(one, 2, b"aa")


@pytest.mark.parametrize("name", ["../../posts.csv", "/etc/posts.csv", "..", ".", "\0", "p" * 300])
def test_the_name_of_a_file_is_no_path(projects: Projects, name: str) -> None:
    upload(projects, name=name)
    (file,) = projects.folder.glob(".newsift-upload-*/uploaded/*")
    assert re.fullmatch(r"[\w-]+(?:\.csv)?|etc-posts\.csv", file.name)


@pytest.mark.parametrize(("size", "reason"), [(0, "empty"), (MAX_UPLOAD_BYTES + 1, "MiB")])
def test_a_size_that_is_refused(projects: Projects, size: int, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        projects.begin_upload("posts.csv", size)
    assert list(projects.folder.iterdir()) == []


def test_more_than_the_size_is_refused(projects: Projects) -> None:
    token = projects.begin_upload("posts.csv", 3)
    with pytest.raises(InputError, match="pieces"):
        projects.add_to_upload(token, 0, TABLE)
    with pytest.raises(InputError, match="still being sent"):
        projects.create(token, "ferry", FileOptions())


def test_an_upload_that_waits_too_long_is_deleted_and_so_are_all_at_the_end(
    projects: Projects,
) -> None:
    first, *_ = [upload(projects) for _ in range(MAX_UPLOADS + 1)]
    with pytest.raises(InputError, match="choose it again"):
        projects.preview(first, FileOptions())
    assert len(list(projects.folder.glob(".newsift-upload-*"))) == MAX_UPLOADS
    projects.stop()
    assert list(projects.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"text\n", "is a post"), (b"was\nhallo welt\n", "column that holds the texts"),
        (b"\x89PNG\0\0", r"^posts\.csv, line 1: "), (b"1,2013,prose\n", "no header"),
    ],
)  # fmt: skip
def test_a_file_without_posts_makes_no_project(
    projects: Projects, content: bytes, reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        projects.create(upload(projects, content), "ferry", FileOptions())
    assert projects.rows() == []


@pytest.mark.parametrize("content", [b"It rains; --help\nIt pours\n", b'[{"id": 1}, {"id":'])
def test_a_file_that_is_not_understood_is_refused_without_an_option_of_commands(
    projects: Projects, content: bytes
) -> None:
    token = projects.begin_upload("notes.log", len(content))
    projects.add_to_upload(token, 0, content)
    with pytest.raises(InputError, match=r"^notes\.log.* is .*; choose another .*\.txt ") as caught:
        projects.preview(token, FileOptions())
    assert "--format" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["", " ", "../x", "a/b", "a\\b", ".hidden", "..", "a\nb", "\u202ea", "x" * 81]
)
def test_a_name_that_is_refused(projects: Projects, name: str) -> None:
    token = upload(projects)
    with pytest.raises(InputError, match="name: give"):
        projects.create(token, name, FileOptions())
    for act in (projects.open, projects.delete):
        with pytest.raises(InputError, match="name: give"):
            act(name)
    assert projects.create(token, " fähre 1 ", FileOptions()) == "fähre 1"


def test_a_name_that_exists_is_refused(projects: Projects) -> None:
    (projects.folder / "mine").write_text("a file of one's own")
    (projects.folder / "link").symlink_to("nowhere")
    opened(projects)
    token = upload(projects)
    for name in ("mine", "link", "ferry"):
        with pytest.raises(InputError, match="taken"):
            projects.create(token, name, FileOptions())
    projects.close()
    with pytest.raises(InputError, match="taken"):
        projects.rename("ferry", "mine")
    assert projects.rename("ferry", "flood") == "flood"
    projects.open("flood")
    until(lambda: projects.state["project"] == "flood")
    assert (projects.folder / "mine").read_text() == "a file of one's own"


def test_the_project_that_is_open_is_neither_deleted_nor_renamed(projects: Projects) -> None:
    opened(projects)
    for act in (lambda: projects.delete("ferry"), lambda: projects.rename("ferry", "flood")):
        with pytest.raises(InputError, match="close it first"):
            act()
    projects.close()
    with locked(projects.folder / "ferry"), pytest.raises(InputError, match="another desk"):
        projects.delete("ferry")
    assert projects.delete("ferry") == []
    assert list(projects.folder.iterdir()) == []
    with pytest.raises(InputError, match="no project is open"):
        _ = projects.desk


def test_a_file_that_is_not_newsifts_is_never_deleted(projects: Projects, tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_bytes(TABLE)
    folder = projects.folder / "ferry"
    folder.mkdir()
    inside = folder / "notes.txt"
    inside.write_text("x")
    describe(folder, [own, inside], FileOptions())
    assert projects.rows()[0].uploaded == 0
    assert projects.delete("ferry") == ["notes.txt"]
    assert (own.read_bytes(), inside.read_text()) == (TABLE, "x")


def test_another_project_takes_the_place_of_the_one_that_is_open(projects: Projects) -> None:
    first = opened(projects)
    assert opened(projects, "flood") is not first
    assert projects.state["project"] == "flood"
    assert projects.delete("ferry") == []


def test_a_project_that_cannot_be_opened_says_why_and_stays(projects: Projects) -> None:
    with pytest.raises(InputError, match="no project is open"):
        opened(projects, content=b"text\nfails\n")
    assert projects.state["error"] == "the worker ended"
    (projects.folder / "ferry" / "project.json").write_text("{")
    assert "is not a project" in projects.rows()[0].problem


def test_what_cannot_be_written_is_a_refusal(projects: Projects) -> None:
    token = projects.begin_upload("posts.csv", len(TABLE))
    (file,) = projects.folder.glob(".newsift-upload-*/uploaded")
    (file / "posts.csv").symlink_to("/dev/full")
    with pytest.raises(InputError, match="cannot be stored"):
        projects.add_to_upload(token, 0, TABLE)


def test_the_requests_of_the_page(projects: Projects) -> None:
    def ask(function: Any, **values: Any) -> Any:
        (endpoint,) = (each for each in PROJECT_ENDPOINTS if each.function is function.function)
        assert endpoint.takes_projects
        by = {"by": "ada"} if endpoint.audit_name else {}
        return call(projects, endpoint, **by, **values)  # type: ignore[arg-type]

    token = ask(views.upload, name="posts.csv", size=len(TABLE))
    ask(views.add_piece, upload=token, offset=0, content=TABLE)
    shown = ask(views.show_preview, upload=token, options='{"id": ""}')
    assert (shown.columns["text"], shown.columns["id"]) == ("text", None)
    with pytest.raises(InputError, match="Europe/Berlin"):
        ask(views.show_preview, upload=token, options='{"timezone": "Nowhere"}')
    assert ask(views.create, upload=token, name="ferry", options={"id": ""}) == "ferry"
    until(lambda: ask(views.session)["project"] == "ferry")
    ask(views.close)
    assert ask(views.list_projects)["projects"][0].name == "ferry"
    assert ask(views.session)["project"] is None
