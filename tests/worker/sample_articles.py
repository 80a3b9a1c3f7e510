"""Three articles on invented events, and posts made of their words."""

import json
from pathlib import Path
from typing import Any

FERRY = "Smoke on the ferry Astrid Vane off Port Maren, we are in the lifeboats"
OTHER = "오늘 점심 뭐 먹지"
ARTICLES = {
    "ferry-fire": (
        "Fire on the ferry Astrid Vane off Port Maren",
        (
            "A fire on the car deck of the ferry Astrid Vane forced 412 passengers into lifeboats "
            "off Port Maren. The coast guard searched for nine people missing in the smoke."
        ),
    ),
    "dam": (
        "Water pours over the Orrell dam",
        (
            "Thousands left Hesket Bridge as water poured over the spillway of the Orrell dam. "
            "Helicopters dropped sandbags, and engineers feared that the dam could break."
        ),
    ),
    "clinics": (
        "Hackers publish patient records stolen from the Medilark clinics",
        (
            "Hackers demanded a ransom of four million after they stole the records of patients of "
            "Medilark. Appointments in eleven clinics were cancelled."
        ),
    ),
}
WORDS = " ".join(f"{title}. {text}" for title, text in ARTICLES.values()).split()
# slices of the articles, and everyday words between some of them
SLICES = [[*WORDS[i : i + 3 + i % 9], *["good", "morning"] * (i % 5)] for i in range(90)]
POSTS = [{"id": f"p{i}", "text": " ".join(words)} for i, words in enumerate(SLICES)]
POSTS += [{"id": f"e{i}", "text": f"good morning to all {i} of you"} for i in range(5)]


def write_seeds(folder: Path) -> None:
    """Write the articles as seed files: one as JSON, the others as Markdown."""
    for name, (title, text) in ARTICLES.items():
        if name == "clinics":
            file, content = f"{name}.json", json.dumps({"title": title, "text": text})
        else:
            file, content = f"{name}.md", f"# {title}\n\n{text}\n"
        (folder / file).write_text(content, "utf-8")


def lines(*posts: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(post).encode() + b"\n" for post in posts)
