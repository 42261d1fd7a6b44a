import pytest
import torch

from rlexp.core.masked import per_token

TOKENS = torch.ones(2, 3, 4, 5)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (2, 3, 1), (2, 3, 4, 1), (2, 1, 1)])
def test_values_of_completions_and_of_tokens_go_with_tokens(shape):
    found = per_token(torch.ones(shape), TOKENS)
    assert found.dim() == 4 and found.expand(TOKENS.shape).shape == TOKENS.shape


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 5), (2, 4, 3), (2, 3, 4, 5, 1), ()])
def test_a_wrong_shape_is_said_with_the_right_ones(shape):
    with pytest.raises(ValueError) as error:
        per_token(torch.ones(shape), TOKENS)
    said = f"a result has the shape {[*shape]}: must be [2, 3, 4], as rewards have, or [2, 3, 4, 5]"
    assert str(error.value) == said
