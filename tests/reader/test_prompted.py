"""PromptedReader: answers scored as the reader itself would."""

import pytest
import torch

from seper_reward.data.queries import as_query

RECORD = {
    "question": "Who?",
    "answers": ["Ann"],
    "passages": [{"id": str(n), "text": f"text {n}", "relevant": n in (1, 3)} for n in range(5)],
}


@pytest.mark.parametrize("layout", ["tree", "alone"])
def test_answer_log_probs_are_the_readers_own(tiny_scorer, layout, monkeypatch):
    assert tiny_scorer.sampler._layout == "tree"
    monkeypatch.setattr(tiny_scorer.sampler, "_layout", layout)
    passages = as_query(RECORD).passages
    sets = [(), passages[:1], passages]
    answers = ["Ann", "Bob Lee the third", "the one who came"]  # of different lengths, behind one prompt
    found = tiny_scorer.reader.answer_log_probs("Who?", answers, sets)
    sampler = tiny_scorer.sampler
    for shown, row in zip(sets, found, strict=True):
        for answer, value in zip(answers, row, strict=True):
            prompt = sampler._encode(tiny_scorer.reader.prompts.build("Who?", shown))
            ids = sampler.tokenizer(answer, add_special_tokens=False).input_ids
            with torch.no_grad():
                logits = sampler._model(input_ids=torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
            expected = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).mean()
            assert value == pytest.approx(float(expected), abs=1e-4)
