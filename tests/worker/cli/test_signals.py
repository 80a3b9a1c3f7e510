"""What ends a command from outside: it concludes what it has begun, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.broker.clients import until
from tests.worker.articles import FERRY, lines, write_seeds
from tests.worker.interrupted import said_until_ended_by


def test_sigterm_ends_it_as_ctrl_c_does_and_leaves_no_hidden_file(
    tmp_path: Path,
) -> None:
    seeds = tmp_path / "seeds"
    seeds.mkdir()
    write_seeds(seeds)
    source, out = tmp_path / "posts", tmp_path / "out"
    os.mkfifo(source)
    command = [sys.executable, "-c", "from worker.cli import main; main()", "filter", str(source)]
    process = subprocess.Popen(
        [*command, "--seeds", str(seeds), "--out", str(out), "--device", "cpu"],
        cwd=Path(__file__).parents[3], stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with source.open("wb") as pipe:
        pipe.write(lines({"id": "1", "text": FERRY}))
        pipe.flush()
        until(lambda: any(f.stat().st_size for f in tmp_path.glob(".newsift-*")))
        said = said_until_ended_by(signal.SIGTERM, process)
    assert process.returncode == 130, said
    assert '"id":"1"' in out.read_text("utf-8")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out", "posts", "seeds"]
