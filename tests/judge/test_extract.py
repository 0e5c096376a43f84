"""The stated answer: wrappers of instruct models around answers of several kinds, and texts that must keep words."""

import itertools
import time

import pytest

from seper_reward.judge.extract import extract_answer
from seper_reward.options import compile_answer_pattern

ANSWERS = ["Ida Voss", "2,340 metres", "1912", "Ann Lee, Bob Tew and Cal Orr", "yes", "Osk, Veland", "$45,000", "-5"]
WRAPPERS = [
    "X", "X.", r"$\boxed{X}$", r"\boxed{\text{X}}", r"The mill is hers, hence \[\boxed{\mathrm{\textbf{X}}}\]",
    r"The final answer is $\boxed{\text{X}}$.", r"\boxed{The answer is X}", r"<answer>\boxed{X}</answer>",
    r"**Answer:** \boxed{X}", "**Final Answer**: X", "**Answer: X**", "Answer: X", "answer : X",
    "Final answer: **X**", "Final Answer: The final answer is X. I hope it is correct.",
    r"Final Answer: The final answer is $\text{X}$. I hope it is correct.", "### Answer\nX",
    "## Final Answer:\n\nX", "**Answer**\n\nX\n\n**Explanation**\n\nIt stands in the passage.",
    "Answer:\n\n**X**\n", "Answer: X\nExplanation: it stands in the passage.", "The answer is X.",
    "The answer is: X", "the answer would be X", "Thus, the final answer is X.", "The correct answer is X",
    "My final answer is X.", "Based on the search results, the answer is X.",
    "According to the Wikipedia article, the answer is X.", "According to Document 2, the answer is X.",
    "It is old.\nX\n\nLet me know if you need more.", "X\n\nI hope this helps!",
    "X\n\nPlease let me know if you have any other questions. I hope this helps!",
    "X\nIs there anything else I can help you with?", "X\n(Source: Doc 1)", "X\nSource: Doc 1",
    "X\n\nSources:\n[1] https://example.org/mill\n[2] The mill", "X [1][2].", "X. [1]", "X (Doc 1, Doc 2).",
    "X【1†source】", "According to Doc 1, the answer is X [1].", "```\nX\n```",
    "It is found.\n```text\nX\n```\nI hope this helps!", "`X`", "1. X", "- X", "* **X**", "X<|im_end|>", "X</s>",
    "X<|eot_id|>", "The answer is X.<|im_end|>\n", "<answer>X</answer>", "<answer> X </answer><|endoftext|>",
    "It is known. <answer>X", "<answer>The answer is X.</answer>", "**X**", "__X__", "*X*.", "***X***", '"X"',
    "“X”.", "The answer is **“X”**.", r"\(X\)", r"\( \text{X} \).", "$$X$$", "<think>Bob?</think>\n\nX",
    "<think>Answer: Bob</think>Answer: X",
]  # fmt: skip


def test_the_answer_in_a_wrapper():
    missed = []
    for wrapper, answer in itertools.product(WRAPPERS, ANSWERS):
        written = answer.replace("$", r"\$") if "\\" in wrapper or "$" in wrapper else answer  # in LaTeX
        if extract_answer(wrapper.replace("X", written)).rstrip(".").strip('"') != answer:
            missed.append((wrapper, answer, extract_answer(wrapper.replace("X", written))))
    assert not missed


#: Denials, hedges, lists, and answers that look like wrappers.
UNCHANGED = [
    "The answer isn't Canberra.", "The wrong answer is Canberra", "I do not know",
    "I think the answer is Canberra", "Sydney. I hope it is Canberra.", "According to legend, Canberra",
    "Maybe so, Canberra", "Canberra?", "It is Canberra", "Canberra is the answer", "Canberra, Sydney",
    "Canberra (Sydney)", '"Sydney" or "Canberra"', "So Long, Marianne", "Thus Spoke Zarathustra", "Let Me Know",
    "Sources of the Nile", "The Answer", "According to the passage", "14. March 1702", "$45 and $60",
    "2**3 and 4**5", "snake_case_name", "[1, 5]", "[1]", "C# {x}", "{Canberra}", "",
]  # fmt: skip
STATED = {
    "the answer is not Canberra": "not Canberra", "I do not know. Let me know if you need more.": "I do not know.",
    "The answer is unknown.": "unknown.", "According to the passage, the answer is not stated.": "not stated.",
    "The answer is probably Canberra": "probably Canberra",
    "The answer is either Canberra or Sydney": "either Canberra or Sydney",
    "Either of these:\n- Sydney\n- **Canberra** [1]": "Canberra",
    r"\boxed{\text{Sydney}, \text{Canberra}}": "Sydney, Canberra",
    "**Sydney** or **Canberra**": "Sydney or Canberra", "Sydney [1] or Canberra [2]": "Sydney or Canberra",
    "Answer: a[0]": "a[0]", r"\boxed{- 5}": "-5", "Answer: – 5 °C": "-5 °C", "Answer: $- 5$": "-5",
    "Answer:\n- 5": "5", r"$\boxed{\$45{,}000}$": "$45,000", r"\boxed{78\%}": "78%", r"\boxed{\frac{1}{2}}": "1/2",
    r"\boxed{f(\{1, 2\})}": "f({1, 2})", "Answer: Bob\nNo. Answer: Ida Voss\nThat is it.": "Ida Voss",
    r"\boxed{Bob} Then \boxed{\text{Ida}": "Ida", "<answer>Bob</answer><answer>Ida": "Ida",
    "<answer>Two villages.\nIda</answer>": "Ida", "Sydney is not the capital. The answer: Canberra": "Canberra",
    None: "", "<think>Ida Voss": "", "Ida</think>Bob<think>": "Bob", "Bob</think>Ann</think>": "",
    "<|im_end|>": "", "```\n```": "", "Answer:": "", "<answer></answer>": "", r"\boxed{}": "",
    "The first guess is wrong\nAnswer: 1999\nIt was built then.": "1999", "No\nAnswer: Ida Voss": "Ida Voss",
}  # fmt: skip


def test_extract_answer_keeps_words_of_answers():
    assert {text: extract_answer(text) for text in UNCHANGED} == {text: text for text in UNCHANGED}
    assert {text: extract_answer(text) for text in STATED} == STATED


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Ida Voss", ""),
        ("FINAL = Ida Voss;", "Ida Voss"),
        ("FINAL = Bob; FINAL = $\\text{Ida Voss}$;", "Ida Voss"),
        ("FINAL = The answer is Ida Voss [1];", "Ida Voss"),
        ("FINAL = not Ida Voss;", "not Ida Voss"),
        ("<think>FINAL = Ida;", ""),
        ("FINAL = ;", ""),
    ],
)
def test_a_pattern_of_ones_own(text, answer):
    assert extract_answer(text, compile_answer_pattern(r"FINAL = ([^;]*);")) == answer


def test_a_pattern_may_have_no_group_or_name_control_tokens():
    assert extract_answer("Ida 1912, 1913", compile_answer_pattern(r"\d{4}")) == "1913"
    harmony = compile_answer_pattern(r"<\|channel\|>final<\|message\|>(.*)")
    assert (
        extract_answer("<|channel|>analysis<|message|>Bob<|channel|>final<|message|>Ida<|return|>", harmony) == "Ida"
    )
    assert extract_answer("b", compile_answer_pattern("(a)|b")) == ""


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", r"answer_pattern must be a regular expression, got '\(': missing \), unterminated subpattern"),
        ("", "a non-empty text, got ''"),
        (3, "a non-empty text, got 3"),
    ],
)
def test_a_pattern_that_cannot_be_used(pattern, message):
    with pytest.raises(ValueError, match=message):
        compile_answer_pattern(pattern)


@pytest.mark.parametrize(
    "piece",
    [
        "a", " ", "\n", "*", "**", "`", "_", "$", "{", "}", "(", "[", "[1]", "[1", "【1】", "<", "<|", "<think>",
        "</think>", "<answer>", "answer", "answer:", "answer \n", "**answer", "# answer\n", r"\boxed{", r"\text{",
        r"\text{}", r"\(", "\"", "“", "- a\n", "1. a\n", "So, ", "Therefore, the answer is ", "not ", "\\", "* ",
        "according to the passage ", "According to the passage, ", "based on ", "I hope this helps. ", "**a ", "_a",
        "Let me know if you ", "(Source: ", "(Doc 1", "Source:\n", "```\n", "\\[# ",
    ],
)  # fmt: skip
def test_long_texts_take_no_longer_than_their_length(piece):
    text = piece * (100_000 // len(piece))
    for whole in (text, "The answer is " + text, r"\boxed{" + text, text + "\nIda", f"Ida{text}Ida"):
        start = time.process_time()
        extract_answer(whole)
        assert time.process_time() - start < 1  # quadratic time would take minutes
