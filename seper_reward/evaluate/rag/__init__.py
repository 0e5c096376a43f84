"""Parts of a RAG system, judged by what they do to the reader."""
