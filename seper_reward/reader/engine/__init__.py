"""The reader on servers that speak the OpenAI completions protocol (vLLM and others)."""
