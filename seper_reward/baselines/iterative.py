"""Workflows over a reader and a retriever: when to search, what for, and when not to use what was found.

Each is the loop of its paper around a reader of short answers, without what was trained for it there.
"""

from collections.abc import Callable, Mapping

from seper_reward.baselines.session import ANSWER_MARK, Session, Tools, Trace

Workflow = Callable[[Session], str]  # answers the question of a session


def closed_book(session: Session) -> str:
    """Answer without a search."""
    return session.draft().text


def retrieve_once(session: Session) -> str:
    """Search for the question and answer with what is found."""
    session.search(session.question)
    return session.draft().text


def ret_robust(session: Session) -> str:
    """Search, answer, and put the passages away if none of them entails that answer (RetRobust, arXiv:2310.01558).

    This is the paper's refusal by an entailment model, for one question rather than for each of its parts; there, as
    here, the answer is then that without a passage.
    """
    session.search(session.question)
    answer = session.draft().text
    if session.support(answer) >= session.options.refuse_below:
        return answer
    session.refuse()
    return session.draft().text


def flare(session: Session) -> str:
    """Look ahead: search as long as a token of the draft is unlikely, and draft again (FLARE, arXiv:2305.06983).

    The query is the draft without its unlikely tokens (FLARE's implicit query), behind the question, because a draft
    of a few words says too little by itself. The reader sees the passages of the last search only. A draft is a whole
    answer, where the paper looks ahead sentence by sentence.
    """
    draft = session.draft()
    while draft.least_prob < session.options.sure_from and session.searches < session.options.max_searches:
        session.search(f"{session.question} {draft.sure_text}".strip())
        draft = session.draft()
    return draft.text


def ircot(session: Session) -> str:
    """Reason and search in turns: each thought is the next query (IRCoT, arXiv:2212.10509).

    Passages are collected. The chain ends with a thought that says the answer, one that is blank or was there before,
    or the last search; as in the paper, a reader then answers with all passages and without the thoughts.
    """
    session.search(session.question)
    while session.searches < session.options.max_searches:
        thought = session.think()
        if not thought or thought in session.thoughts[:-1] or ANSWER_MARK in thought.casefold():
            break
        session.search(thought, keep=session.context)
    return session.draft().text


def iter_retgen(session: Session) -> str:
    """Answer, and search again with question and answer, a fixed number of times (Iter-RetGen, arXiv:2305.15294).

    The reader sees the passages of the last search only, as in the paper. There it answers with a chain of thought,
    here in a few words.
    """
    answer = ""
    while session.searches < session.options.max_searches:
        session.search(f"{session.question} {answer}".strip())
        answer = session.draft().text
    return answer


#: Workflows by name.
WORKFLOWS: Mapping[str, Workflow] = {
    "closed_book": closed_book,
    "retrieve": retrieve_once,
    "ret_robust": ret_robust,
    "flare": flare,
    "ircot": ircot,
    "iter_retgen": iter_retgen,
}


def run_workflow(name: str, tools: Tools, question: str) -> Trace:
    """Answer a question by a workflow of this name in ``WORKFLOWS``.

    Args:
        name: Name of the workflow.
        tools: Reader, retriever and settings.
        question: The question.

    Raises:
        ValueError: There is no such workflow.
        UnscorableError: The question is longer than the reader's window.
    """
    check_workflow(name)
    session = Session(tools, question)
    return session.trace(WORKFLOWS[name](session))


def check_workflow(name: str) -> None:
    """Raise ``ValueError`` if there is no workflow of this name."""
    if name not in WORKFLOWS:
        raise ValueError(f"workflows must be of {', '.join(WORKFLOWS)}, got {name!r}")
