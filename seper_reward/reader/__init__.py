"""The language model that answers questions: samples responses to prompts, in this process or on servers."""
