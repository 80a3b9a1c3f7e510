"""The bridge over layers that are left out, against a linear map that is known."""

from dataclasses import replace

import pytest
import torch

from encoder.errors import InputError
from encoder.model.star_settings import StarSettings
from encoder.model.star_transformer import StarTransformer
from train.transformer.bridge import bridge_after, fit_bridge, nth

WIDTH = 12


def test_a_bridge_is_where_layers_are_left_out() -> None:
    assert bridge_after((0, 1, 2, 9, 10, 11)) == 2
    assert bridge_after((0, 1, 2)) is None
    with pytest.raises(InputError):
        bridge_after((0, 2, 4))


def test_the_bridge_gives_the_states_of_the_layers_left_out() -> None:
    torch.manual_seed(0)
    whole = StarSettings(
        vocabulary=50, layers=3, width=WIDTH, heads=2, inner=16, window=None, dim=WIDTH
    )
    teacher = StarTransformer(whole).eval()
    star = StarTransformer(replace(whole, layers=2, bridge=0)).eval()
    kept = {name: x for name, x in teacher.state_dict().items() if "layers" not in name}
    star.load_state_dict(kept, strict=False)
    for own, theirs in ((0, 0), (1, 2)):
        star.layers[own].load_state_dict(teacher.layers[theirs].state_dict())
    ids = torch.randint(3, 50, (400, 9))
    real = torch.rand(ids.shape) < 0.8
    real[:, 0] = True
    batches = [(ids[i : i + 100], real[i : i + 100]) for i in range(0, 400, 100)]
    fit_bridge(star, teacher, batches, to=2)
    with torch.inference_mode():
        before = nth(teacher.states(ids, real), 1)[real].double()
        expected = nth(teacher.states(ids, real), 2)[real].double()
        mine = nth(star.states(ids, real), 1)[real].double()
    with_one = torch.cat([before, torch.ones_like(before[:, :1])], 1)
    best = with_one @ torch.linalg.lstsq(with_one, expected).solution
    spread = (expected - expected.mean(0)).square().mean()
    least, found = ((x - expected).square().mean() / spread for x in (best, mine))
    assert least < 0.5  # the map is worth having
    assert found < least + 0.02
