"""Questions in other languages, with paragraphs of the same and of other articles."""

from seper_reward.data.splits import split_of
from tests.benchmarks.experiments.languages import questions


def test_questions_have_their_paragraph_first_and_three_kinds_of_others():
    names = [f"{article}-{place}" for article in range(30) for place in range(2)]
    rows = []
    for name in names:
        texts = {"question": {"es": f"¿{name}?"}, "answer": {"es": f"respuesta {name}"}}
        first = {"id": f"a{name}", "paragraph": name, "context": {"es": f"texto {name}"}, **texts}
        rows += [first, {"id": f"b{name}", "paragraph": name, **texts}]  # as in the file, the context stands once
    made = questions(rows, "es", 5)
    assert len(made) == 5
    for row in made:
        own, near, *far = (passage["id"] for passage in row["passages"])
        assert row["id"] == f"a{own}"
        assert (row["question"], row["answers"]) == (f"¿{own}?", [f"respuesta {own}"])
        assert split_of(own) != "train"
        assert near.split("-")[0] == own.split("-")[0]
        assert near != own
        assert all(name.split("-")[0] != own.split("-")[0] for name in far)
        assert [passage["relevant"] for passage in row["passages"]] == [True, False, False, False]
        assert row["passages"][0]["text"] == f"texto {own}"
