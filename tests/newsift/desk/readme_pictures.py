"""The pictures of the README: the demo's matches, light and dark.

python -m tests.newsift.desk.readme_pictures
"""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.newsift.desk.browser.browser_window import Window, chromium
from tests.newsift.desk.desk_topics import NEWSIFT

OUT = Path(__file__).parents[3] / "docs" / "images"
POSTS_S = 20.0  # for the worker to start, and for some of the posts that are not judged yet
SIZE = {"width": 1200, "height": 640}


def main() -> int:
    OUT.mkdir(exist_ok=True)
    with subprocess.Popen([NEWSIFT, "demo", "--desk"], stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        address = next(m[0] for line in demo.stderr if (m := re.search(r"http://\S+", line)))
        time.sleep(POSTS_S)
        with chromium() as browser:
            for look in ("light", "dark"):
                window = Window(browser, address, viewport=SIZE, color_scheme=look)
                page = window.settled("event/ferry-fire/matches")
                page.get_by_text("all well").wait_for()
                page.screenshot(path=OUT / f"desk-{look}.png")
                window.close()
        demo.send_signal(signal.SIGINT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
