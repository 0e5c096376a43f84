"""Layouts of questions, answers and passages that other libraries read and write; knows nothing of files."""
