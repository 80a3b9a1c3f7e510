"""Pictures of every page, with data as they look, light, dark and narrow: to be looked at.

python -m tests.newsift.desk.pictures FOLDER
"""

import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.broker.server import opened
from tests.newsift.desk.browser.window import Window, chromium
from tests.newsift.desk.place import Place
from tests.newsift.desk.stock import EVENT, stocked

PAGES = {
    "events": "", "seeds": "seeds", "add": "seeds/add", "health": "health",
    **{tab: f"event/{EVENT}/{tab}" for tab in ("matches", "scores", "judge", "learned", "export")},
}  # fmt: skip
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 800}},
    "dark": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 360, "height": 740}},
}


def main() -> int:
    """Start what is needed, look at it, and end it."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        opened("embedded", Path(scratch)) as server,
        closing(Place(server, Path(scratch))) as place,
    ):
        stocked(place)
        place.worker()
        take(place.desk().address, out)
    return 0


def take(url: str, out: Path) -> None:
    """Take every picture of a desk."""
    with chromium() as browser:
        for look, how in LOOKS.items():
            window = Window(browser, url, **how)
            for name, where in PAGES.items():
                window.settled(where).screenshot(path=out / f"{name}-{look}.png", full_page=True)
            window.close()


if __name__ == "__main__":
    sys.exit(main())
