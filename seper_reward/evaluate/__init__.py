"""Evaluation: does ΔSePer agree with people, and how good is a ranking of passages?"""
