import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from newsift.cli.collect import collect
from newsift.cli.processes import free_port
from tests.worker.fake_web_server import Reply, Site, serving
from worker.config.load import load

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
STEP = re.compile(r"^([A-Z]+)((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)


def dockerfile() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, one by one, as (word, rest)."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    return [(word, rest.replace("\\\n", " ").strip()) for word, rest in STEP.findall(text)]


def compose() -> dict[str, Any]:
    result: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    return result


def environment() -> dict[str, str]:
    lines = " ".join(rest for word, rest in dockerfile() if word == "ENV")
    return dict(re.findall(r"(\w+)=(\S+)", lines))


def test_images_are_pinned_and_name_no_host() -> None:
    images = [rest.split()[0] for word, rest in dockerfile() if word == "FROM"]
    stages = {rest.split()[-1] for word, rest in dockerfile() if word == "FROM"}
    images = [image for image in images if image not in stages]
    services = compose()["services"].values()
    built = {service["image"] for service in services if "build" in service}
    images += [service["image"] for service in services if service["image"] not in built]
    assert len(images) == 5
    for image in images:
        name, _, tag = image.partition(":")
        assert re.search(r"\d+\.\d+\.\d+", tag), image
        assert "." not in name.split("/")[0], image


def test_files_of_the_dockerfile_exist() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    for word, rest in dockerfile():
        if word == "COPY" and "--from" not in rest:
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert any(source.startswith(line[1:]) for line in ignored if line[0] == "!")
        for script in re.findall(r"deploy/image/\S+\.sh", rest if word == "RUN" else ""):
            assert os.access(ROOT / script, os.X_OK), script


def test_the_image_has_the_licences_that_its_wheel_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    copied = {name for word, rest in dockerfile() if word == "COPY" for name in rest.split()}
    assert copied >= {*project["license-files"], project["readme"]}


def test_the_worker_in_the_image_has_no_rights() -> None:
    steps = dockerfile()
    targets = [rest.split()[-1] for word, rest in steps if word == "FROM"]
    assert targets[-2:] == ["cuda", "cpu"]
    last_user = [rest for word, rest in steps if word == "USER"][-1]
    assert last_user == "10001:10001"
    assert ("ENTRYPOINT", '["faust", "-A", "worker", "worker"]') in steps
    service = compose()["services"]["worker"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    cache = environment()["NEWSIFT_CACHE"]
    assert f"cache:{cache}" in service["volumes"]


def test_the_configuration_of_the_containers_is_valid() -> None:
    cuda = yaml.safe_load((DEPLOY / "compose.cuda.yaml").read_text("utf-8"))
    services = compose()["services"]
    variables = environment() | services["worker"]["environment"]
    variables |= cuda["services"]["worker"]["environment"]
    config = load(None, variables | {"NEWSIFT_CONFIG": str(ROOT / "config.yaml")}).config
    listeners = services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"INSIDE://{config.kafka.bootstrap_servers}" in listeners.split(",")
    assert config.web.host == "0.0.0.0"
    scrape = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text("utf-8"))
    target = scrape["scrape_configs"][0]["dns_sd_configs"][0]
    assert (target["names"], target["port"]) == (["worker", *collectors()], config.web.port)


def test_each_image_of_ours_is_built_on_a_gpu_too() -> None:
    services = compose()["services"]
    cuda = yaml.safe_load((DEPLOY / "compose.cuda.yaml").read_text("utf-8"))["services"]
    merged = {name: service | cuda.get(name, {}) for name, service in services.items()}
    built = {service["image"] for service in merged.values() if "build" in service}
    ours = {one["image"] for one in merged.values() if one["image"].startswith("newsift:")}
    assert built == ours == {"newsift:cuda"}


def collectors() -> dict[str, dict[str, Any]]:
    services = compose()["services"]
    return {name: one for name, one in services.items() if "collect" in one.get("profiles", ())}


def test_collectors_are_commands_and_keep_their_state() -> None:
    for service in collectors().values():
        program, group, source = service["entrypoint"]
        assert (program, group, source in collect.commands) == ("newsift", "collect", True)
        assert service["volumes"] == [f"state:{environment()['NEWSIFT_STATE']}"]
        variables = environment() | service["environment"]
        stream = load(None, variables | {"NEWSIFT_CONFIG": str(ROOT / "config.yaml")}).config.stream
        assert int(service["stop_grace_period"].removesuffix("s")) > stream.shutdown_s
    assert collectors()


def test_the_desk_listens_on_its_port_and_asks_the_worker() -> None:
    service = compose()["services"]["desk"]
    token = {"NEWSIFT_DESK__TOKEN": "a token that is long enough"}
    variables = environment() | service["environment"] | token
    config = load(None, variables | {"NEWSIFT_CONFIG": str(ROOT / "config.yaml")}).config
    assert (config.desk.host, config.desk.workers) == ("0.0.0.0", f"worker:{config.web.port}")
    port = service["entrypoint"][-1]
    assert service["entrypoint"] == ["newsift", "desk", "--port", port]
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]


def test_mounts_exist_and_ports_are_open_to_this_machine_alone() -> None:
    result = compose()
    for name, service in result["services"].items():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            there = (DEPLOY / source).exists() if source[0] == "." else source in result["volumes"]
            assert there, f"{name}: {volume}"
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_grafana_finds_its_source_and_its_dashboard() -> None:
    folder = DEPLOY / "grafana"
    source = yaml.safe_load((folder / "provisioning/datasources/prometheus.yaml").read_text())
    provider = yaml.safe_load((folder / "provisioning/dashboards/newsift.yaml").read_text())
    board = json.loads((folder / "dashboards" / "newsift.json").read_text("utf-8"))
    uid = source["datasources"][0]["uid"]
    assert {panel["datasource"]["uid"] for panel in board["panels"]} == {uid}
    path = provider["providers"][0]["options"]["path"]
    grafana = compose()["services"]["grafana"]
    assert f"./grafana/dashboards:{path}:ro" in grafana["volumes"]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{path}/newsift.json"


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (None, 1)])
def test_the_health_check_asks_the_worker(status: int | None, code: int) -> None:
    with serving(Site()) as site:
        port = free_port() if status is None else site.server_port  # nobody listens there
        site.replies["/healthz"] = Reply(status=status or 200)
        done = subprocess.run(
            [sys.executable, DEPLOY / "image" / "health.py"],
            env={"NEWSIFT_WEB__PORT": str(port)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") <= 1


FILES = (ROOT / "Makefile", *sorted((ROOT / "deploy/image").glob("*.sh")))
INSTALL = re.compile(r"pip (?:install|sync) (?:[^\n]*\\\n)*[^\n]*")
OURS = ("--editable .", "/newsift-*.whl")  # the project itself, which has no hash
PREBUILT = ("--no-build ", "--only-binary :all:")


def installs() -> list[tuple[str, str]]:
    return [
        (file.name, " ".join(result.replace("\\\n", " ").split()) + " ")
        for file in FILES for result in INSTALL.findall(file.read_text("utf-8"))
        if not any(own in result for own in OURS)
    ]  # fmt: skip


def test_every_install_is_by_hash_and_without_a_build() -> None:
    assert {file for file, _ in installs()} >= {"Makefile", "tools.sh", "install.sh"}
    for file, command in installs():
        assert "--require-hashes " in command, file
        assert any(word in command for word in PREBUILT), file
