"""Tables of the parts of a RAG system, cell by cell."""

from seper_reward.reports.rag_tables import components_tables, workflows_tables


def of(mean, interval=None):
    return {"mean": mean, "interval": interval}


def cells(table, first):
    """Return the cells of the row that begins with these."""
    rows = [[each.strip() for each in line.strip("|").split("|")] for line in table.splitlines()]
    return next(row[len(first) :] for row in rows if row[: len(first)] == first)


def test_components():
    plain = {"reranker": "none", "compression": "none", "k": 5, "delta_seper": of(0.2, [0.1, 0.3]), "lead": None}
    plain |= {"exact_match": of(0.5), "harm_rate": of(0.25), "passages": 4.5, "tokens": 203.4}
    short = {**plain, "compression": "longllmlingua", "tokens": 99.6}
    short |= {"lead": {"lead": -0.01, "interval": [-0.05, 0.02], "sd": 0.1}}
    found = {"questions": 9, "left_out": 1, "baseline_seper": 0.4, "variants": [plain, short]}
    table = components_tables({"questions": 10, "readers": {"embedded": found}})
    assert table.startswith("Reader embedded: 9 questions, 1 left out, SePer without a passage 0.400\n\n| k ")
    row = cells(table, ["5", "none", "none"])
    assert row == ["0.200 [0.100, 0.300]", "–", "0.500", "0.250", "4.5", "203"]
    assert cells(table, ["5", "none", "longllmlingua"])[1] == "no difference seen: -0.010 [-0.050, 0.020]"


def test_workflows():
    row = {"accuracy": of(0.5), "delta_seper": of(0.1), "searches": of(0.0), "tokens": of(54.4), "lead": None}
    row |= {"per_search": None, "steps": []}
    lead = {"lead": 0.2, "interval": [0.1, 0.3], "sd": 0.1}
    step = {"share": 0.25, "refused": 1.0, "gain": of(-0.2, [-0.4, -0.1])}
    other = {**row, "lead": {"accuracy": lead}, "per_search": 0.05, "steps": [step]}
    result = {"questions": 2, "left_out": 0, "baseline_seper": 0.3}
    table = workflows_tables({**result, "workflows": {"closed_book": row, "flare": other}})
    assert cells(table, ["closed_book"]) == ["0.500", "0.100", "–", "0.00", "54", "–"]
    assert cells(table, ["flare"])[2] == "+0.200 [0.100, 0.300]"
    steps = table.partition("by step")[2]
    assert cells(steps, ["flare"]) == ["-0.200 [-0.400, -0.100] (25%, 100% of them refusals)"]
    assert cells(steps, ["closed_book"]) == [""]
    assert "by step" not in workflows_tables({**result, "workflows": {"closed_book": row}})
