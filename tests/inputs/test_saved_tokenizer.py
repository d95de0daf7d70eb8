"""Ids are those of `transformers`' AutoTokenizer, whatever tokenizer_config.json says; what has none is refused."""

import json
import socket

import pytest
import tiny
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

from ff_memories.base.errors import UserError
from ff_memories.corpus.tokenizer import read_types, write_types
from ff_memories.inputs import model_folder

AWKWARD = ("The cat", "A dog sings to 12345 birds, 7.30!", "🙂 naïve 河川 ＡＢ", "a <|endoftext|> b<s></s>",
           "<bos>x[CLS]", "e\u0301 ½", "a", "it's we'LL")  # fmt: skip
BLANKS = (" The cat", "  two  blanks ", "a\tb\n", "")


def byte_level():
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False)])
    made.decoder = decoders.ByteLevel()
    return made, {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "special_tokens": ["<|endoftext|>"]}


def piece():
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    special = ["<unk>", "<s>", "</s>", "<bos>", *(f"<0x{b:02X}>" for b in range(256))]
    return made, {"special_tokens": special}


def write(folder, made, settings, kind="gpt2"):
    fast, options = made
    fast.train_from_iterator([tiny.WORDS], trainers.BpeTrainer(vocab_size=400, show_progress=False, **options))
    folder.mkdir(exist_ok=True)
    fast.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


CASES = {
    "no config": (byte_level, {}, "gpt2"),
    "GPT2, a blank in front": (byte_level, {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}, "gpt2"),
    "GPTNeoX": (byte_level, {"tokenizer_class": "GPTNeoXTokenizer", "add_prefix_space": True}, "gpt_neox"),
    "Qwen2": (byte_level, {"tokenizer_class": "Qwen2Tokenizer"}, "qwen3"),
    "fast, a blank in front": (
        byte_level, {"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": True}, "gpt2"
    ),
    "Llama, none in front": (piece, {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False}, "llama"),
    "Llama, legacy": (piece, {"tokenizer_class": "LlamaTokenizer", "legacy": True}, "llama"),
    "Gemma": (piece, {"tokenizer_class": "GemmaTokenizer"}, "gemma"),
    "tokens added": (
        byte_level,
        {"tokenizer_class": "GPT2Tokenizer", "added_tokens_decoder": {"0": {"content": "<|endoftext|>", "lstrip": True,
         "rstrip": False, "single_word": False, "normalized": False, "special": True}}}, "gpt2",
    ),
    "clean, lower": (byte_level, {"clean_up_tokenization_spaces": True, "do_lower_case": True}, "gpt2"),
    "code that it need not run": (
        byte_level, {"tokenizer_class": "GPT2Tokenizer", "auto_map": {"AutoTokenizer": ["own.Own", None]}}, "gpt2"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_ids_are_those_of_transformers(name, tmp_path, monkeypatch):
    make, settings, kind = CASES[name]
    folder = write(tmp_path / "m", make(), settings, kind)
    (folder / "own.py").write_text("raise SystemExit('code was run')")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("reached the network"))
    theirs = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    ours = model_folder.read_tokenizer(folder)
    write_types(ours, tmp_path / "types.json")
    kept = read_types(tmp_path / "types.json")
    for text in (*AWKWARD, *BLANKS):
        wanted = theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.encode([text]) == kept.encode([text]) == wanted, text
        assert text in BLANKS or ours.encode_words(text.split())[0] == wanted


@pytest.mark.parametrize(
    ("settings", "change", "said"),
    [
        ({"split_special_tokens": True}, {}, r"gives 'a <\|endoftext\|>b' the ids .* `transformers` .*remove split"),
        ({"tokenizer_class": "CTRLTokenizer"}, {}, "`transformers` makes no tokenizer of"),
        ({}, {"dropout": 0.5}, 'dropout of its model is 0.5.*set "dropout" to null'),
    ],
    ids=["special tokens split", "another class", "dropout"],
)
def test_a_tokenizer_without_settled_ids_is_refused(settings, change, said, tmp_path):
    folder = write(tmp_path / "m", byte_level(), settings)
    plain = json.loads((folder / "tokenizer.json").read_text())
    plain["model"] |= change
    (folder / "tokenizer.json").write_text(json.dumps(plain))
    with pytest.raises(UserError, match=f"(?s){said}"):
        model_folder.read_tokenizer(folder)


def test_a_pattern_that_fails_on_a_text_is_one_line(tmp_path):
    fast, options = byte_level()
    fast.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex("(x+)+y"), "isolated"), fast.pre_tokenizer]
    )
    folder = write(tmp_path / "m", (fast, options), {"tokenizer_class": "PreTrainedTokenizerFast"})
    with pytest.raises(UserError, match="the tokenizer fails on 'xxx"):
        model_folder.read_tokenizer(folder).encode_words(["x" * 60 + "z"])


def test_a_token_beyond_the_model_is_refused_where_a_text_has_it(tmp_path):
    folder = write(tmp_path / "m", byte_level(), {"tokenizer_class": "GPTNeoXTokenizer"}, "gpt_neox")
    types = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    ours = model_folder.read_tokenizer(folder, types)
    assert len(ours) == types
    with pytest.raises(UserError, match=r"the text has '<\|padding\|>'"):
        ours.encode(["a<|padding|>"])
