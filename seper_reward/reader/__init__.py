"""The language model that is asked: prompts in, sampled responses out, in this process or on servers."""
