import copy

import pytest
import torch
from torch import nn

from hf_vaswani.core import modeling_packed_linear as packed_vaswani
from hf_vaswani.core.modeling_packed_linear import PackedLinear, can_pack, with_packed_weights

pytestmark = pytest.mark.skipif(not can_pack(torch.float32), reason="torch without oneDNN")


def network(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(512, 600), nn.ReLU(), nn.Sequential(nn.Linear(600, 512, bias=False))).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 512), (3, 4, 512), (200, 512)])
def test_packed_module_gives_the_same(dtype, shape):
    if not can_pack(dtype):
        pytest.skip(f"a processor on which oneDNN has no {dtype}")
    module, states = network(dtype), torch.randn(shape).to(dtype)
    with torch.no_grad():
        expected = module.double()(states.double())
        packed = with_packed_weights(module.to(dtype))
        tolerance = 1e-5 if dtype == torch.float32 else 0.03
        torch.testing.assert_close(packed(states).double(), expected, atol=tolerance, rtol=tolerance)
    assert isinstance(packed[0], PackedLinear) and isinstance(packed[2][0], PackedLinear)


def test_module_itself_stays_as_it_is():
    module = network()
    before = copy.deepcopy(module.state_dict())
    with_packed_weights(module)
    assert [type(child) for child in module] == [nn.Linear, nn.ReLU, nn.Sequential]
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_changed_weights_are_packed_anew():
    module, states = network(), torch.randn(2, 512)
    with torch.no_grad():
        with_packed_weights(module)
        module[2][0].weight.data.zero_()
        assert not with_packed_weights(module)(states).any()


def test_layers_that_somebody_watches_are_left_alone():
    module = network()
    module[0].register_forward_hook(lambda *args: None)
    assert with_packed_weights(module)[0] is module[0]


def test_named_parts_small_layers_and_autocast_are_left_alone():
    module = network()
    assert with_packed_weights(module, left_alone={module[2]})[2] is module[2]
    small = nn.Sequential(nn.Linear(8, 8))
    assert with_packed_weights(small) is small
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert with_packed_weights(module) is module


def test_random_numbers_are_left_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    can_pack.cache_clear()
    assert can_pack(torch.float32)
    assert torch.equal(torch.rand(3), expected)


def test_packed_layers_still_tell_their_weight():
    module = network()
    assert with_packed_weights(module)[0].weight is module[0].weight


def test_without_onednn_nothing_is_packed(monkeypatch):
    monkeypatch.setattr(packed_vaswani, "can_pack", lambda dtype: False)
    module = network()
    assert with_packed_weights(module) is module
