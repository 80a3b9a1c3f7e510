"""The address of each running worker, in a file that only this user can read.

The desk and `labels ask` request near misses and readiness from these workers alone: another user's
server on such a port does not know the token, so it cannot answer in a worker's place.
"""

import hmac
import logging
import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

import msgspec

from encoder.errors import InputError
from encoder.support.files import private_folder, read_regular, state_folder, write_atomically

CHALLENGE_HEADER, PROOF_HEADER = "Newsift-Challenge", "Newsift-Proof"
MAX_FILES, MAX_FILE_BYTES = 64, 2**10
STATE_ERRORS = (OSError, InputError, RuntimeError)  # there may be no home folder
log = logging.getLogger("newsift.web")


class WorkerAddress(msgspec.Struct, frozen=True):
    """Without a token the address is configured, and trusted as it is."""

    address: str
    token: str = ""

    def proof(self, challenge: str) -> str:
        content = challenge.encode("utf-8", "surrogateescape")  # of a header, as it came
        return hmac.digest(self.token.encode(), content, "sha256").hex()


def write_address(address: str) -> WorkerAddress:
    """Writes the file of this process, and removes those of processes that have ended."""
    worker = WorkerAddress(address, token_hex(16))
    try:
        for file in private_folder(_folder()).glob("*.json"):
            if not _is_running(file):
                file.unlink(missing_ok=True)
        write_atomically(_file(worker), msgspec.json.encode(worker), 0o600)
    except STATE_ERRORS as error:
        log.info("desk.workers has to name this worker, as it leaves no address: %s", error)
    return worker


def remove_address(worker: WorkerAddress) -> None:
    with suppress(*STATE_ERRORS):
        _file(worker).unlink(missing_ok=True)


def read_addresses() -> list[WorkerAddress]:
    """Those of this user's running workers."""
    workers = []
    with suppress(*STATE_ERRORS):
        for file in sorted(private_folder(_folder()).glob("*.json"))[:MAX_FILES]:
            with suppress(OSError, msgspec.MsgspecError):
                if _is_running(file):
                    content = read_regular(file, MAX_FILE_BYTES)
                    workers.append(msgspec.json.decode(content, type=WorkerAddress))
    return [worker for worker in workers if worker.token]


def _folder() -> Path:
    return state_folder() / "workers"


def _file(worker: WorkerAddress) -> Path:
    return _folder() / f"{os.getpid()}-{worker.address.rpartition(':')[2]}.json"


def _is_running(file: Path) -> bool:
    try:
        os.kill(int(file.stem.partition("-")[0]), 0)
    except (OSError, ValueError, OverflowError):  # it has ended, or another user has its number
        return False
    return True
