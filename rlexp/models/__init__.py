"""Policies: R independent networks as one stack; ``policy`` says what the rest of the package asks of them."""

from rlexp.models.gru import GRU
from rlexp.models.llama import Llama
from rlexp.models.positional import Positional
from rlexp.models.tabular import Tabular
from rlexp.models.transformer import Transformer
from rlexp.models.transformer_plain import PlainTransformer

MODELS = {
    "gru": GRU,
    "transformer": Transformer,
    "transformer_plain": PlainTransformer,
    "llama": Llama,
    "positional": Positional,
    "tabular": Tabular,
}
