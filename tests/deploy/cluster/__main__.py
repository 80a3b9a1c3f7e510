"""Prove the Kubernetes manifests on a control plane of this machine: `make cluster`.

--dry-run leaves out the scaling and --cached builds nothing; exit code 77 where it cannot run here.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.broker.kafka import KafkaUnavailable
from tests.deploy.cluster import dry_run, scaling
from tests.deploy.cluster.control_plane import ControlPlane
from tests.deploy.cluster.go import Unavailable, are_built, programs

SKIPPED = 77


def prove(folder: Path, *, scale: bool) -> list[str]:
    plane = ControlPlane(folder, programs())
    try:
        plane.start()
        failures = dry_run.check_manifests(plane)
        if scale:
            failures += dry_run.check_mutations(plane) + scaling.run(plane, folder)
        return failures
    finally:
        plane.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--cached", action="store_true")
    options = parser.parse_args()
    if options.cached and not are_built():
        dry_run.show("SKIPPED: the control plane is not built here; `make cluster` builds it")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="newsift-cluster-") as folder:
        try:
            failures = prove(Path(folder), scale=not options.dry_run)
        except (Unavailable, KafkaUnavailable) as error:
            dry_run.show(f"SKIPPED: {error}")
            return SKIPPED
    for failure in failures:
        dry_run.show(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
