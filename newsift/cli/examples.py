"""Two examples for the help page of each command."""

import click

EXAMPLES: dict[str, tuple[str, str]] = {
    "demo": ("newsift demo", "newsift demo --desk"),
    "filter": (
        "newsift filter posts.csv --seeds articles/ --out matches.csv",
        "newsift filter posts.jsonl --seeds article.md --event ferry --json",
    ),
    "seeds add": (
        "newsift seeds add article.md --event ferry",
        "newsift seeds add --url https://example.org/news/ferry-fire --expires-at 14d",
    ),
    "seeds export": ("newsift seeds export seeds.jsonl", "newsift seeds export seeds.json"),
    "seeds follow": (
        "newsift seeds follow https://example.org/ferry.rss --event ferry",
        "newsift seeds follow https://example.org/ferry.rss --dry-run",
    ),
    "seeds import": (
        "newsift seeds import seeds.jsonl",
        "newsift seeds import seeds.jsonl --no-preview",
    ),
    "seeds list": ("newsift seeds list", "newsift seeds list --json"),
    "seeds remove": ("newsift seeds remove article", "newsift seeds remove ferry other"),
    "seeds set": (
        "newsift seeds set article --threshold 0.25",
        "newsift seeds set article --paused",
    ),
    "seeds show": ("newsift seeds show article", "newsift seeds show article --json"),
    "broker": ("newsift broker", "newsift broker --port 9192 --partitions 8"),
    "worker": ("newsift worker", "newsift worker --kafka kafka:9092 -l info"),
    "collect bluesky": (
        "newsift collect bluesky --lang en",
        "newsift collect bluesky --dry-run --url wss://jetstream1.us-east.bsky.network/subscribe",
    ),
    "collect files": (
        "newsift collect files incoming/",
        "newsift collect files incoming/ --once --format csv",
    ),
    "collect mastodon": (
        "newsift collect mastodon --url https://mastodon.social --token-file token",
        "newsift collect mastodon --url https://mastodon.social --tag ferry --token-file token",
    ),
    "collect x": (
        "newsift collect x --rules rules.json --token-file token",
        "newsift collect x --list-rules --token-file token",
    ),
    "desk": (
        "newsift desk",
        "newsift desk --file posts.csv --seeds articles/ --project ferry",
    ),
    "matches": (
        "newsift matches --event ferry",
        "newsift matches --since 24h --out matches.csv",
    ),
    "watch": (
        "newsift watch --webhook https://example.org/hook --event ferry",
        "newsift watch --listen 127.0.0.1:8080",
    ),
    "status": ("newsift status", "newsift status --json"),
    "labels ask": ("newsift labels ask ferry", "newsift labels ask ferry --queue learn --by ada"),
    "labels export": (
        "newsift labels export labels.csv",
        "newsift labels export labels.jsonl --event ferry",
    ),
    "labels import": (
        "newsift labels import labels.csv",
        "newsift labels import labels.jsonl --by ada --yes",
    ),
    "labels list": ("newsift labels list", "newsift labels list --event ferry --json"),
    "events forget": ("newsift events forget ferry", "newsift events forget ferry --yes"),
    "events learn": (
        "newsift events learn ferry",
        "newsift events learn ferry --since 6h --yes",
    ),
    "events list": ("newsift events list", "newsift events list --json"),
    "events promise": (
        "newsift events promise ferry",
        "newsift events promise ferry --precision 0.9 --confidence 0.95",
    ),
    "events show": ("newsift events show ferry", "newsift events show ferry --json"),
    "replay": ("newsift replay posts.jsonl --rate 100", "newsift replay posts.csv --check"),
    "backfill": (
        "newsift backfill article --since 2h",
        "newsift backfill article --since 2h --publish",
    ),
    "background build": (
        "newsift background build posts.jsonl --out background.safetensors",
        "newsift background build --from-topic 24h --out background.safetensors",
    ),
    "background show": (
        "newsift background show",
        "newsift background show background.safetensors --json",
    ),
    "dead-letters list": (
        "newsift dead-letters list",
        "newsift dead-letters list --reason bad_json --since 24h",
    ),
    "dead-letters retry": (
        "newsift dead-letters retry tweets-0-17",
        "newsift dead-letters retry --reason out_of_memory",
    ),
    "dead-letters show": (
        "newsift dead-letters show tweets-0-17",
        "newsift dead-letters show tweets-0-17 --json",
    ),
    "topics check": ("newsift topics check", "newsift topics check --json"),
    "topics create": (
        "newsift topics create",
        "newsift topics create --kafka kafka:9092",
    ),
    "check": ("newsift check", "newsift check --kafka kafka:9092"),
    "plan": (
        "newsift plan --rate 6000 --seeds 1000",
        "newsift plan --rate 6000 --seeds 1000 --seeds 10000 --burst 3 --drain 600",
    ),
    "config check": ("newsift config check", "newsift config check --config config.yaml"),
    "config show": ("newsift config show", "newsift config show --template"),
    "models add": (
        "newsift models add ferry.zip --name ferry",
        "newsift models add https://example.org/ferry.zip --name ferry",
    ),
    "models list": ("newsift models list", "newsift models list --json"),
    "models pack": (
        "newsift models pack model/ --out ferry.zip",
        "newsift models pack out/ --out other.zip",
    ),
    "models remove": ("newsift models remove ferry", "newsift models remove ferry-de"),
    "embed": (
        "newsift embed posts.csv --out posts.safetensors",
        "newsift embed articles.jsonl --articles --out articles.safetensors",
    ),
    "explain": (
        "newsift explain 'smoke over the harbour'",
        "newsift explain 'smoke over the harbour' --article 'A ferry burns in the harbour'",
    ),
    "schemas": ("newsift schemas", "newsift schemas match"),
    "train": (
        "newsift train default --data data/ --out model/",
        "newsift train recipe.yaml --data data/ --out model/ --seed 1",
    ),
    "evaluate": (
        "newsift evaluate default --data data/",
        "newsift evaluate default model/ --data data/ --split dev --no-peers",
    ),
    "figures": (
        "newsift figures default --data data/ --out figures/",
        "newsift figures model/ --out figures/ --only alpha,attention",
    ),
    "bench background": ("newsift bench background", "newsift bench background --json"),
    "bench collect": ("newsift bench collect", "newsift bench collect --rounds 3"),
    "bench costs": ("newsift bench costs --out costs.json", "newsift bench costs --rounds 1"),
    "bench encoder": ("newsift bench encoder", "newsift bench encoder --threads 1 --only whole"),
    "bench languages": ("newsift bench languages", "newsift bench languages --json"),
    "bench peers": ("newsift bench peers", "newsift bench peers --rounds 1 --seconds 10"),
    "bench profiles": ("newsift bench profiles", "newsift bench profiles --json"),
    "bench promise": ("newsift bench promise", "newsift bench promise --precision 0.9"),
    "bench seeds": ("newsift bench seeds", "newsift bench seeds --seeds 10,100000"),
    "bench stories": ("newsift bench stories", "newsift bench stories --json"),
    "bench stream": ("newsift bench stream", "newsift bench stream --only latency"),
}


def add_examples(name: str, command: click.Command) -> None:
    """Put the examples of a command, or of a group's commands, at the ends of their help pages."""
    if isinstance(command, click.Group):
        for part, inner in command.commands.items():
            add_examples(f"{name} {part}", inner)
    elif name in EXAMPLES:
        lines = "\n".join(f"  $ {example}" for example in EXAMPLES[name])
        command.epilog = f"\b\nExamples:\n{lines}"
