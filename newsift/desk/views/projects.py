"""Projects: their list, and a new one from a file in the browser."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from encoder.errors import InputError
from newsift.desk.api import MAX_BY_CHARS, Action, EmptyRequest, get_endpoint, post_endpoint
from newsift.desk.projects import Projects
from newsift.files.preview import FilePreview
from newsift.files.tables import FileOptions
from newsift.operations.actor import current_user
from newsift.operations.messages import notify
from worker.text import one_line, shorten

MAX_OPTIONS_CHARS = 4000
MAX_LISTED = 5
Name = Annotated[str, Meta(max_length=400)]
Token = Annotated[str, Meta(max_length=40)]


@get_endpoint("/api/session", EmptyRequest)
def session(projects: Projects, _request: EmptyRequest) -> dict[str, Any]:
    you = shorten(one_line(current_user()), MAX_BY_CHARS) or "somebody"
    state = {"read_only": False, "is_file": True, "you": you, "projects": True}
    return state | {"project": projects.state["project"]}


@get_endpoint("/api/projects", EmptyRequest)
def list_projects(projects: Projects, _request: EmptyRequest) -> dict[str, Any]:
    return projects.state | {"projects": projects.rows(), "folder": str(projects.folder)}


class UploadRequest(Action, frozen=True, kw_only=True):
    name: Name
    size: Annotated[int, Meta(ge=0)]


class PieceRequest(Action, frozen=True, kw_only=True):
    upload: Token
    offset: Annotated[int, Meta(ge=0)]
    content: bytes


class UploadAction(Action, frozen=True, kw_only=True):
    upload: Token


class PreviewRequest(Struct, frozen=True, kw_only=True):
    upload: Token
    options: Annotated[str, Meta(max_length=MAX_OPTIONS_CHARS)] = "{}"


class CreateRequest(UploadAction, frozen=True, kw_only=True):
    name: Name
    options: FileOptions = FileOptions()


class ProjectAction(Action, frozen=True, kw_only=True):
    name: Name


class RenameRequest(ProjectAction, frozen=True, kw_only=True):
    new: Name


@post_endpoint("/api/projects/upload", UploadRequest, "projects.upload")
def upload(projects: Projects, request: UploadRequest) -> str:
    return projects.begin_upload(request.name, request.size)


@post_endpoint("/api/projects/piece", PieceRequest, "projects.piece")
def add_piece(projects: Projects, request: PieceRequest) -> None:
    projects.add_to_upload(request.upload, request.offset, request.content)


@post_endpoint("/api/projects/drop", UploadAction, "projects.drop")
def drop(projects: Projects, request: UploadAction) -> None:
    projects.drop_upload(request.upload)


@get_endpoint("/api/projects/preview", PreviewRequest)
def show_preview(projects: Projects, request: PreviewRequest) -> FilePreview:
    try:
        options = msgspec.json.decode(request.options, type=FileOptions)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InputError(str(error).removeprefix("--")) from None
    return projects.preview(request.upload, options)


@post_endpoint("/api/projects/create", CreateRequest, "projects.create")
def create(projects: Projects, request: CreateRequest) -> str:
    return projects.create(request.upload, request.name, request.options)


@post_endpoint("/api/projects/open", ProjectAction, "projects.open")
def open_project(projects: Projects, request: ProjectAction) -> None:
    projects.open(request.name)


@post_endpoint("/api/projects/close", Action, "projects.close")
def close(projects: Projects, _request: Action) -> None:
    projects.close()


@post_endpoint("/api/projects/rename", RenameRequest, "projects.rename")
def rename(projects: Projects, request: RenameRequest) -> str:
    return projects.rename(request.name, request.new)


@post_endpoint("/api/projects/delete", ProjectAction, "projects.delete")
def delete(projects: Projects, request: ProjectAction) -> None:
    if left := projects.delete(request.name):
        more = f" and {len(left) - MAX_LISTED:,} more" if len(left) > MAX_LISTED else ""
        names = ", ".join(left[:MAX_LISTED])
        notify(f"{request.name}: its folder stays, as it holds other files: {names}{more}")
