"""Layouts of questions, answers and passages of other libraries; independent of file formats."""
