import torch

from hf_vaswani.training.optimization.weights import MovingAverage, weights

from ...conftest import tiny_model


def test_average_follows_its_formula_with_a_warm_up_of_the_decay():
    model = tiny_model()
    name, parameter = next(iter(model.named_parameters()))
    average = MovingAverage(model, decay=0.9)
    expected = parameter.detach().double().clone()
    generator = torch.Generator().manual_seed(1)
    for step in range(1, 201):
        with torch.no_grad():
            parameter.add_(torch.randn(parameter.shape, generator=generator))
        average.follow(step)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * parameter.detach().double()
    torch.testing.assert_close(average.shadow[name].double(), expected, atol=1e-4, rtol=1e-5)


def test_weights_are_restored_after_the_average_replaced_them():
    model = tiny_model()
    average = MovingAverage(model, decay=0.5)
    before = {name: value.clone() for name, value in weights(model).items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    own = {name: value.clone() for name, value in weights(model).items()}
    with average.in_place_of_weights():
        assert all(torch.equal(value, before[name]) for name, value in weights(model).items())
    assert all(torch.equal(value, own[name]) for name, value in weights(model).items())
