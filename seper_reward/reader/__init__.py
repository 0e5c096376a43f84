"""The language model that answers questions: prompts in, responses out, in this process or on servers."""
