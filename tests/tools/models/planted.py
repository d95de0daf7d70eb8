"""A language model whose memories are known: every statistic of it has a closed form.

Its residual stream is made of features, each a pair of coordinates (+x, -x), so that every mean is zero and a layer
norm is a division by a number known beforehand:

- the current token and the current position, from the embeddings;
- the previous token, copied by the first layer's attention;
- for every layer, how much its feed-forward promotes each word.

Key w of a layer fires on prefixes that end in word w, with coefficient (1 + SLOPE * length) / deviation; the last layer
also has keys for bigrams. A value promotes given words by given amounts, of length 1 in all.
"""

import math
from argparse import Namespace
from functools import cache

import torch
from factories import arguments, fairseq_dictionary

SLOPE = 1 / 32
EPSILON = 1e-5  # of layer norms
EOS = 2


class Planted:
    """Builds the checkpoint, and says in closed form what must be measured on it.

    Args:
        types: words of the dictionary after the four specials.
        head: how many ids the adaptive softmax's head holds; the rest are its one tail.
        promotions: for every layer {id of the last token: {promoted id: amount}}; others promote ``<unk>``.
        bigrams: the last layer's further keys: ((first id, second id), {promoted id: amount}).
        positions: the longest sentence with ``</s>``; at most 1 / SLOPE.
    """

    def __init__(self, types, head, promotions, bigrams, positions=24):
        self.types, self.head, self.positions = types, head, positions
        self.vocab, self.layers = len(types) + 4, len(promotions)
        self.promotions, self.bigrams = promotions, bigrams
        self.keys = self.vocab + len(bigrams)
        blocks = {"token": self.vocab, "position": positions, "previous": self.vocab}
        blocks |= {f"out{n}": self.vocab for n in range(1, self.layers + 1)}
        self.first, features = {}, 0
        for name, size in blocks.items():
            self.first[name] = features
            features += size
        self.d = 2 * features
        self.promoted = cache(self.promoted)  # type: ignore[method-assign]
        self.coefficients = cache(self.coefficients)  # type: ignore[method-assign]

    # -- closed forms: a prefix is a tuple of ids; the empty one is </s> alone -----------------------------------------

    def promoted(self, layer, key):
        """{id: amount} that a value promotes."""
        if key < self.vocab:
            return unit(self.promotions[layer - 1].get(key, {3: 1.0}))
        return unit(self.bigrams[key - self.vocab][1]) if layer == self.layers else {}

    def fires(self, layer, key, prefix):
        last, before = (EOS, EOS, *prefix)[-1], (EOS, EOS, *prefix)[-2]
        if key < self.vocab:
            return last == key
        return layer == self.layers and (before, last) == self.bigrams[key - self.vocab][0]

    def coefficients(self, layer, prefix):
        """{key: memory coefficient} of the keys that fire at a prefix."""
        squares = 3.0  # token, position, previous token
        for earlier in range(1, layer):
            squares += sum(c * c for c in self.coefficients(earlier, prefix).values())
        deviation = math.sqrt(2 * squares / self.d + EPSILON)
        strength = (1 + SLOPE * len(prefix)) / deviation
        return {key: strength for key in range(self.keys) if self.fires(layer, key, prefix)}

    def ffn(self, layer, prefix):
        """{id: amount} that a layer's feed-forward promotes."""
        out = {}
        for key, coefficient in self.coefficients(layer, prefix).items():
            for word, amount in self.promoted(layer, key).items():
                out[word] = out.get(word, 0.0) + coefficient * amount
        return out

    def residual(self, layer, prefix):
        """{id: amount} promoted in the residual before a layer's feed-forward; ``layers + 1``: the final output."""
        out = {}
        for earlier in range(1, layer):
            for word, amount in self.ffn(earlier, prefix).items():
                out[word] = out.get(word, 0.0) + amount
        return out

    def log_probabilities(self, promoted, token=None):
        """Log p of every id for a vector that promotes {id: amount} and holds the feature of a current token."""
        head = [2 * promoted.get(word, 0.0) for word in range(self.head)]
        norm = math.log(sum(map(math.exp, [*head, 0.0])))  # 0: the tail's class
        tail = [2.0 * (word == token) for word in range(self.head, self.vocab)]
        tail_norm = math.log(sum(map(math.exp, tail)))
        return [x - norm for x in head] + [x - tail_norm - norm for x in tail]

    # -- the checkpoint ------------------------------------------------------------------------------------------------

    def pairs(self, name, n=None):
        """The features of a block, (n, d): each one +1 and -1."""
        first, n = self.first[name], n or (self.positions if name == "position" else self.vocab)
        out = torch.zeros(n, self.d, dtype=torch.float64)
        index = torch.arange(n)
        out[index, 2 * (first + index)], out[index, 2 * (first + index) + 1] = 1.0, -1.0
        return out

    def model(self):
        """Return (fairseq model, its options)."""
        from fairseq.models.transformer_lm import TransformerLanguageModel

        args = arguments(
            decoder_layers=self.layers, decoder_embed_dim=self.d, decoder_ffn_embed_dim=self.keys,
            decoder_attention_heads=1, adaptive_input_factor=1, adaptive_softmax_factor=1,
            adaptive_input_cutoff=str(self.head), adaptive_softmax_cutoff=str(self.head), no_scale_embedding=True,
            decoder_learned_pos=True, max_target_positions=self.positions, tokens_per_sample=self.positions,
        )  # fmt: skip
        task = Namespace(
            source_dictionary=fairseq_dictionary(self.types), target_dictionary=fairseq_dictionary(self.types)
        )
        model = TransformerLanguageModel.build_model(args, task).eval()
        old = model.state_dict()
        new = {name: tensor if "version" in name else torch.zeros_like(tensor) for name, tensor in old.items()}
        words, eye = self.pairs("token"), torch.eye(self.d, dtype=torch.float64)
        read = sum(self.pairs(f"out{n}") for n in range(1, self.layers + 1))  # what all layers promote
        embeddings = "decoder.embed_tokens.embeddings."
        new[embeddings + "0.0.weight"] = new["decoder.adaptive_softmax.head.word_proj.weight"] = read[: self.head]
        # a head word's embedding is tied to its output; the band's projection turns it into the token's feature
        new[embeddings + "0.1.weight"] = words[: self.head].T @ read[: self.head] / (2 * self.layers)
        new[embeddings + "1.0.weight"] = new["decoder.adaptive_softmax.tail.0.2.weight"] = words[self.head :]
        new[embeddings + "1.1.weight"] = new["decoder.adaptive_softmax.tail.0.0.weight"] = eye
        places = self.pairs("position")
        new["decoder.embed_positions.weight"] = torch.cat([torch.zeros(2, self.d, dtype=torch.float64), places])
        for layer in range(1, self.layers + 1):
            at = f"decoder.layers.{layer - 1}."
            new[at + "self_attn_layer_norm.weight"] = new[at + "final_layer_norm.weight"] = torch.ones(self.d)
            new[at + "fc1.weight"], new[at + "fc2.weight"] = self._keys(layer), self._values(layer)
        at = "decoder.layers.0.self_attn."  # the first layer looks one position back and copies the token from there
        deviation = math.sqrt(2 * 2 / self.d + EPSILON)
        new[at + "q_proj.weight"] = 4096 * places[:-1].T @ places[1:]
        new[at + "k_proj.weight"] = new[at + "out_proj.weight"] = eye
        new[at + "v_proj.weight"] = self.pairs("previous").T @ words / 2 * deviation
        model.load_state_dict(new)
        return model, args

    def _keys(self, layer):
        """(keys, d): +1 where all of a key's words match, at most -1 where one does not, and a slope over positions."""
        words, previous = self.pairs("token") / 2, self.pairs("previous") / 2
        slope = SLOPE * (torch.arange(self.positions, dtype=torch.float64) @ self.pairs("position")) / 2
        keys = [2 * word - words.sum(0) + slope for word in words]
        for (first, second), _ in self.bigrams:
            both = 2 * words[second] - words.sum(0) + 2 * previous[first] - previous.sum(0)
            keys.append(both - words.sum(0) + slope if layer == self.layers else torch.zeros(self.d))
        return torch.stack([key.double() for key in keys])

    def _values(self, layer):
        """(d, keys): fairseq's fc2."""
        out, values = self.pairs(f"out{layer}"), torch.zeros(self.d, self.keys, dtype=torch.float64)
        for key in range(self.keys):
            for word, amount in self.promoted(layer, key).items():
                values[:, key] += amount * out[word]
        return values


def unit(promoted):
    length = math.sqrt(sum(a * a for a in promoted.values()))
    return {word: amount / length for word, amount in promoted.items()}
