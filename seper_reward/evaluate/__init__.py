"""Evaluations: agreement of labels with human labels, and the quality of retrievers, judges and searches.

Where processes share the work of a function, all of them must call it together.
"""
