"""A folder without a vocabulary loads all the same, as a tokenizer that makes hardly a token of a prompt."""

import pytest

from data_prep.errors import DataError
from data_prep.tokens import TokenCounter


def test_a_folder_without_a_vocabulary_is_refused(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(DataError, match=r"has no vocabulary, such as tokenizer\.json"):
        TokenCounter(str(tmp_path), {})


def test_a_prompt_of_no_token_is_refused():
    class Empty:
        def apply_chat_template(self, prompts, **_):
            return prompts

        def __call__(self, texts, **_):
            return {"input_ids": [[] for _ in texts]}

    counter = TokenCounter.__new__(TokenCounter)
    counter._tokenizer, counter._options, counter._path = Empty(), {}, "some/folder"
    with pytest.raises(DataError, match="'some/folder' makes 0 tokens of a prompt"):
        counter.count([[{"role": "user", "content": "1+1=?"}]])
