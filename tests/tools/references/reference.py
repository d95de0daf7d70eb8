"""The paper's definitions, slowly and literally: float64, fairseq's own model, one sentence at a time, Python loops.

Shares no code with the package. Layers are 1..L, keys 0..d_m-1, positions are prefix lengths.
"""

from pathlib import Path

import torch


class Reference:
    """A fairseq model in float64, and everything the paper reads from it at one prefix."""

    def __init__(self, model, types, flat=False):
        self.flat = flat
        self.model = model.double().eval()
        decoder = model.decoder
        if hasattr(decoder.embed_positions, "weights"):
            decoder.embed_positions.weights = decoder.embed_positions.weights.double()
        self.blocks = list(decoder.layers)
        self.ids = {w: i for i, w in enumerate(["<s>", "<pad>", "</s>", "<unk>", *types])}

    def encode(self, words):
        return [self.ids.get(w, 3) for w in words]

    @torch.no_grad()
    def layers(self, tokens):
        """Return per layer (residual r, coefficients m, feed-forward y), each (len(tokens) + 1, .)."""
        seen, hooks = [], []
        for block in self.blocks:
            record = {}
            hooks += [
                block.final_layer_norm.register_forward_pre_hook(lambda m, i, r=record: r.update(r=i[0][:, 0])),
                block.fc1.register_forward_hook(lambda m, i, o, r=record: r.update(m=torch.relu(o[:, 0]))),
                block.fc2.register_forward_hook(lambda m, i, o, r=record: r.update(y=o[:, 0])),
            ]
            seen.append(record)
        self.model.decoder.extract_features(torch.tensor([[2, *tokens]]))
        for hook in hooks:
            hook.remove()
        return [(s["r"], s["m"], s["y"]) for s in seen]

    @torch.no_grad()
    def log_probabilities(self, h, final=False):
        """Return log p over the vocabulary of one vector; ``final``: through the decoder's last norm."""
        decoder = self.model.decoder
        if final and decoder.layer_norm is not None:
            h = decoder.layer_norm(h)
        if self.flat:  # softmax(h E), the tails' embeddings brought to the width of h
            bands = [decoder.embed_tokens.weights_for_band(i) for i in range(len(decoder.embed_tokens.embeddings))]
            logits = [
                embedding @ (h if i == 0 else projection.T @ h) for i, (embedding, projection) in enumerate(bands)
            ]
            return torch.log_softmax(torch.cat(logits), 0)
        if decoder.adaptive_softmax is not None:
            return decoder.adaptive_softmax.get_log_prob(h.view(1, 1, -1), None).view(-1)
        return torch.log_softmax(decoder.output_layer(h.view(1, 1, -1)), -1).view(-1)

    def top(self, h, final=False):
        return int(self.log_probabilities(h, final).argmax())


def rule_sentences(path, headings=True):
    """Sentences of a text file as lists of words: after . ! ? (and closing quotes or brackets) a new one begins."""
    out = []
    for line in Path(path).read_text(encoding="utf-8").split("\n"):
        words, current = line.split(), []
        for i, word in enumerate(words):
            current.append(word)
            if word in {".", "!", "?"} and not (i + 1 < len(words) and words[i + 1] in {".", "!", "?"}):
                out.append(current)
                current = []
        if current:
            out.append(current)
    return out


def triggers(reference, sentences, top, positions="inner", per_sentence="best", duplicates="keep"):
    """Return {(layer, key): [(coefficient, sentence, position), ...]} in order."""
    low, high = {"inner": (1, -1), "released": (0, -1), "full": (1, 0)}[positions]
    found, once = {}, {}
    for s, tokens in enumerate(sentences):
        for layer, (_, m, _) in enumerate(reference.layers(tokens), 1):
            # a prefix has one coefficient, whatever follows it: equal prefixes are exact ties
            m = [once.setdefault((layer, *tokens[:j]), m[j]) for j in range(len(tokens) + 1)]
            for key in range(len(m[0])):
                entries = [(float(m[j][key]), s, j) for j in range(low, len(tokens) + high + 1) if m[j][key] > 0]
                if entries and per_sentence == "best":
                    entries = [max(entries, key=lambda e: (e[0], -e[2]))]
                found.setdefault((layer, key), []).extend(entries)
    for cell, entries in found.items():
        entries.sort(key=lambda e: (-e[0], e[1], e[2]))
        if duplicates == "drop":
            texts, kept = set(), []
            for entry in entries:
                text = tuple(sentences[entry[1]][: entry[2]])
                if text not in texts:
                    texts.add(text)
                    kept.append(entry)
            entries = kept
        found[cell] = entries[:top]
    return found
