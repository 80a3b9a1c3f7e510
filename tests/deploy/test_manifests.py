import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.deploy.kustomize import build
from tests.deploy.manifests import HERE, TREE, faults, main
from tests.deploy.mutations import MUTATIONS, Mutation
from tests.deploy.pods import Workload

ROOT = Path(__file__).parents[2]


def test_the_manifests_have_no_fault_together_or_alone() -> None:
    assert faults(HERE) == []
    assert main([]) == 0
    assert [main([str(HERE / name)]) for name in TREE] == [0, 0, 0]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_a_mistake_is_found(mutation: Mutation, tmp_path: Path) -> None:
    lines = faults(mutation.apply(HERE, tmp_path / "tree"))
    assert any(mutation.field in line for line in lines), lines


@pytest.mark.parametrize("text", ["a: [", "a: 1\na: 2\n", "- 1\n", "kind: {}\n", ""])
def test_a_file_that_cannot_be_read_is_a_fault(text: str, tmp_path: Path) -> None:
    tree = Mutation("base/worker.yaml", "", "", "").apply(HERE, tmp_path / "tree")
    (tree / "base" / "worker.yaml").write_text(text, "utf-8")
    assert faults(tree)


def test_a_file_that_nothing_names_and_an_empty_folder_are_faults(tmp_path: Path) -> None:
    assert faults(tmp_path)
    tree = Mutation("base/worker.yaml", "", "", "").apply(HERE, tmp_path / "tree")
    (tree / "base" / "more.yaml").write_text("kind: Service\n", "utf-8")
    assert faults(tree) == ["is part of no kustomization (base/more.yaml)"]


def test_the_command_prints_a_line_for_each_fault_and_exits_with_1(tmp_path: Path) -> None:
    tree = MUTATIONS[0].apply(HERE, tmp_path / "tree")
    command = [sys.executable, "-m", "tests.deploy.manifests", str(tree)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == len(faults(tree)) == 2
    assert not done.stderr


def test_the_images_have_the_version_of_the_code() -> None:
    made = [*build(HERE / "overlays/keda").objects, *build(HERE / "overlays/gpu").objects]
    sets = [Workload(item, {}) for item in made if item["kind"] == "StatefulSet"]
    images = {box["image"] for work in sets for box in work.containers}
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert images == {f"newsift:{version}-cpu", f"newsift:{version}-cuda"}
