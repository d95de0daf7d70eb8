"""The rules of the pages find what breaks them; ``make lint`` applies them to the pages and the package."""

from tools import lint


def test_faults_of_a_module_are_found():
    source = '"""So that."""\ndef f():\n    """What it does."""\n    raise UserError(f"{x} is to be", "in place of")\n'
    assert list(lint.faults_of_module(source)) == [
        "module: avoid 'so that'",
        "f opens with 'What'",
        "message '… is to be': avoid 'is to be'",
        "message 'in place of': avoid 'in place of'",
    ]
    named = '"""So."""\nclass C:\n    """A thing."""\n    @property\n    def n(self):\n        """The number."""\n'
    assert not list(lint.faults_of_module(named))


def test_phrases_to_avoid_are_found_across_lines_and_not_in_code():
    assert lint.avoided("It runs so\nthat it ends.\n\n    so as to\n\n`in order to`") == ["so that"]


def test_a_word_without_a_link_is_found():
    assert lint.unlinked("A shard is one.", "Shard")
    assert not lint.unlinked("A [shard](paper.md#shard) is one. A shard.", "Shard")
    assert lint.unlinked("Two shards. A [shard](paper.md#shard).", "Shard")
    assert not lint.unlinked("# Shards\n\n`shard` and [shards](cluster.md)", "Shard")
