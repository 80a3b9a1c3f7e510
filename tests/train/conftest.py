"""What every training needs."""

from collections.abc import Iterator

import pytest

from encoder.model.star_settings import AFTER, BEFORE
from tests.encoder.small_model import LINES
from train.transformer.mpnet import VOCABULARY


@pytest.fixture(scope="package", autouse=True)
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The word pieces of the small star, in the place of MPNet's."""
    folder = tmp_path_factory.mktemp("mpnet")
    lines = [f"<{i}>" for i in range(BEFORE)] + LINES + ["<mask>"] * AFTER
    (folder / VOCABULARY).write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("train.teacher.star.mpnet_folder", lambda: folder)
        yield
