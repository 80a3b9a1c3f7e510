"""Two examples for the help page of each command and group."""

import click

GROUP_EXAMPLES = 2  # the first ones of its first commands
# The arguments of two calls, by the command.
EXAMPLES: dict[str, tuple[str, str]] = {
    "demo": ("", "--desk"),
    "filter": (
        "posts.csv --seeds articles/ --out matches.csv",
        "posts.jsonl --seeds article.md --event ferry --json",
    ),
    "seeds add": (
        "article.md --event ferry",
        "--url https://example.org/news/ferry-fire --expires-at 14d",
    ),
    "seeds export": ("seeds.jsonl", "seeds.json"),
    "seeds follow": (
        "https://example.org/ferry.rss --event ferry",
        "https://example.org/ferry.rss --dry-run",
    ),
    "seeds import": ("seeds.jsonl", "seeds.json"),
    "seeds list": ("", "--json"),
    "seeds remove": ("article", "ferry other"),
    "seeds set": ("article --threshold 0.25", "article --paused"),
    "seeds show": ("article", "article --json"),
    "broker": ("", "--port 9192 --partitions 8"),
    "worker": ("", "--kafka kafka:9092 -l info"),
    "collect bluesky": (
        "--lang en",
        "--dry-run --url wss://jetstream1.us-east.bsky.network/subscribe",
    ),
    "collect files": ("incoming/", "incoming/ --once --format csv"),
    "collect mastodon": (
        "--url https://mastodon.social --token-file token",
        "--url https://mastodon.social --stream hashtag --tag ferry --token-file token",
    ),
    "collect x": ("--token-file token", "--limit 1000 --token-file token"),
    "desk": ("", "--file posts.csv --seeds articles/ --project ferry"),
    "matches": ("--since 24h --out matches.csv", "--event ferry --post-to https://example.org/in"),
    "status": ("", "--json"),
    "estimate": ("ferry --by day", "ferry --by hour --csv --all"),
    "labels ask": ("ferry", "ferry --queue count --since 7d --labels 200"),
    "labels export": ("labels.csv", "labels.jsonl --event ferry"),
    "labels import": ("labels.csv", "labels.jsonl --by ada --yes"),
    "labels note": ("ferry", "ferry 'A rumour counts, a joke does not.'"),
    "labels list": ("", "--event ferry --json"),
    "events forget": ("ferry", "ferry --yes"),
    "events learn": ("ferry", "ferry --since 6h --yes"),
    "events list": ("", "--json"),
    "events promise": ("ferry", "ferry --precision 0.9 --confidence 0.95"),
    "events show": ("ferry", "ferry --json"),
    "replay": ("posts.jsonl --rate 100", "posts.csv --check"),
    "backfill": ("article --since 2h", "article --since 2h --publish"),
    "background build": (
        "posts.jsonl --out background.safetensors",
        "--from-topic --out background.safetensors",
    ),
    "background show": ("", "background.safetensors --json"),
    "dead-letters list": ("", "--reason bad_json --since 24h"),
    "dead-letters retry": ("tweets-0-17", "--reason out_of_memory"),
    "dead-letters show": ("tweets-0-17", "tweets-0-17 --json"),
    "prune": ("--follow", "--author did:plc:ewvi7nxzyoun6zhxrhs64oiz --platform bluesky"),
    "topics check": ("", "--json"),
    "topics create": ("", "--kafka kafka:9092"),
    "check": ("", "--kafka kafka:9092"),
    "config check": ("", "--config config.yaml"),
    "config show": ("", "--template"),
    "embed": (
        "posts.csv --out posts.safetensors",
        "articles.jsonl --articles --out articles.safetensors",
    ),
    "explain": (
        "'smoke over the harbour'",
        "'smoke over the harbour' --article 'A ferry burns in the harbour'",
    ),
    "schemas": ("", "match"),
    "train": (
        "default --data data/ --star star/ --out skim/",
        "paper --data data/ --vectors glove.840B.300d.txt --out model/",
    ),
    "evaluate": ("default --data data/", "default model/ --data data/ --split dev --no-peers"),
    "figures": (
        "default --data data/ --out figures/",
        "model/ --out figures/ --only alpha,attention",
    ),
    "bench encoder": ("", "--threads 1 --rounds 3"),
    "bench estimate": ("", "--data data/ --repetitions 200"),
    "bench peers": ("--data data/", "--data data/ --mpnet --rounds 1"),
    "bench profiles": ("--data data/", "--data data/ --json"),
    "bench promise": ("--data data/", "--data data/ --precision 0.9"),
    "bench sameness": ("", "--data data/ --posts 200"),
    "bench seeds": ("", "--seeds 10,1000"),
    "bench stories": ("--data data/", "--data data/ --json"),
    "bench stream": ("", "--posts 50000 --rounds 1"),
}


def add_examples(name: str, command: click.Command) -> None:
    """Put examples at the ends of the help pages of a command, or of a group and its commands."""
    if isinstance(command, click.Group):
        for part, inner in command.commands.items():
            add_examples(f"{name} {part}", inner)
        names = [f"{name} {part}" for part in command.commands][:GROUP_EXAMPLES]
        calls = [f"{inner} {EXAMPLES[inner][0]}" for inner in names]
    elif name in EXAMPLES:
        calls = [f"{name} {arguments}" for arguments in EXAMPLES[name]]
    else:
        return
    lines = "\n".join(f"  $ newsift {call}".rstrip() for call in calls)
    command.epilog = f"\b\nExamples:\n{lines}"
