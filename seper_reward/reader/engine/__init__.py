"""The reader on servers with the OpenAI completions protocol (vLLM and others)."""
